package org.example.peer.tri;

import com.google.protobuf.Message;
import com.google.protobuf.StringValue;
import java.util.HashMap;
import java.util.Map;
import java.util.function.BiConsumer;
import org.apache.dubbo.common.URL;
import org.apache.dubbo.common.stream.StreamObserver;
import org.apache.dubbo.rpc.Invoker;
import org.apache.dubbo.rpc.PathResolver;
import org.apache.dubbo.rpc.ServerService;
import org.apache.dubbo.rpc.model.MethodDescriptor.RpcType;
import org.apache.dubbo.rpc.model.ServiceDescriptor;
import org.apache.dubbo.rpc.model.StubMethodDescriptor;
import org.apache.dubbo.rpc.model.StubServiceDescriptor;
import org.apache.dubbo.rpc.stub.BiStreamMethodHandler;
import org.apache.dubbo.rpc.stub.ServerStreamMethodHandler;
import org.apache.dubbo.rpc.stub.StubInvocationUtil;
import org.apache.dubbo.rpc.stub.StubInvoker;
import org.apache.dubbo.rpc.stub.StubMethodHandler;
import org.apache.dubbo.rpc.stub.StubSuppliers;
import org.apache.dubbo.rpc.stub.UnaryStubMethodHandler;

/** The stub of {@link Tea}, in the form of Dubbo's compiler less what nobody calls here. */
public final class DubboTeaTriple {
    private static final StubServiceDescriptor DESCRIPTOR = new StubServiceDescriptor(Tea.SERVICE_NAME, Tea.class);
    private static final StubMethodDescriptor BREW = method("Brew", RpcType.UNARY);
    private static final StubMethodDescriptor POUR = method("Pour", RpcType.SERVER_STREAM);
    private static final StubMethodDescriptor TASTE = method("Taste", RpcType.BI_STREAM);

    static {
        StubSuppliers.addSupplier(Tea.SERVICE_NAME, DubboTeaTriple::newStub);
        StubSuppliers.addSupplier(Tea.JAVA_SERVICE_NAME, DubboTeaTriple::newStub);
        StubSuppliers.addDescriptor(Tea.SERVICE_NAME, DESCRIPTOR);
        StubSuppliers.addDescriptor(Tea.JAVA_SERVICE_NAME, DESCRIPTOR);
    }

    private DubboTeaTriple() {}

    private static StubMethodDescriptor method(String name, RpcType type) {
        StubMethodDescriptor method = new StubMethodDescriptor(
                name,
                StringValue.class,
                StringValue.class,
                type,
                message -> ((Message) message).toByteArray(),
                message -> ((Message) message).toByteArray(),
                StringValue::parseFrom,
                StringValue::parseFrom);
        DESCRIPTOR.addMethod(method);
        return method;
    }

    public static Tea newStub(Invoker<?> invoker) {
        return new TeaStub(invoker);
    }

    /** The consumer's side. */
    public static final class TeaStub implements Tea {
        private final Invoker<?> invoker;

        TeaStub(Invoker<?> invoker) {
            this.invoker = invoker;
        }

        @Override
        public StringValue brew(StringValue wish) {
            return StubInvocationUtil.unaryCall(invoker, BREW, wish);
        }

        @Override
        public void pour(StringValue wish, StreamObserver<StringValue> out) {
            StubInvocationUtil.serverStreamCall(invoker, POUR, wish, out);
        }

        @Override
        public StreamObserver<StringValue> taste(StreamObserver<StringValue> out) {
            return StubInvocationUtil.biOrClientStreamCall(invoker, TASTE, out);
        }
    }

    /** The provider's side. */
    public abstract static class TeaImplBase implements Tea, ServerService<Tea> {

        @Override
        public final Invoker<Tea> getInvoker(URL url) {
            PathResolver paths = url.getOrDefaultFrameworkModel()
                    .getExtensionLoader(PathResolver.class)
                    .getDefaultExtension();
            for (StubMethodDescriptor method : new StubMethodDescriptor[] {BREW, POUR, TASTE}) {
                paths.addNativeStub("/" + SERVICE_NAME + "/" + method.getMethodName());
                paths.addNativeStub("/" + JAVA_SERVICE_NAME + "/" + method.getMethodName());
            }
            BiConsumer<StringValue, StreamObserver<StringValue>> brew = this::brewLater;
            BiConsumer<StringValue, StreamObserver<StringValue>> pour = this::pour;
            Map<String, StubMethodHandler<?, ?>> handlers = new HashMap<>();
            handlers.put(BREW.getMethodName(), new UnaryStubMethodHandler<>(brew));
            handlers.put(POUR.getMethodName(), new ServerStreamMethodHandler<>(pour));
            handlers.put(TASTE.getMethodName(), new BiStreamMethodHandler<>(this::taste));
            return new StubInvoker<>(this, url, Tea.class, handlers);
        }

        private void brewLater(StringValue wish, StreamObserver<StringValue> out) {
            try {
                out.onNext(brew(wish));
                out.onCompleted();
            } catch (Throwable thrown) {
                out.onError(thrown);
            }
        }

        @Override
        public final ServiceDescriptor getServiceDescriptor() {
            return DESCRIPTOR;
        }
    }
}
