package org.example.peer.tri;

import com.google.protobuf.StringValue;
import org.apache.dubbo.common.stream.StreamObserver;
import org.apache.dubbo.rpc.RpcException;
import org.apache.dubbo.rpc.TriRpcStatus;

/**
 * Brews everything but coffee. It does not tell who it is: of several in one process the first one answers, whatever
 * group is asked for, since the group belongs to a key that is made of the interface and not of the path.
 */
public class TeaService extends DubboTeaTriple.TeaImplBase {

    public TeaService(String name, int port) {}

    @Override
    public StringValue brew(StringValue wish) {
        switch (wish.getValue()) {
            case "coffee":
                throw TriRpcStatus.NOT_FOUND.withDescription("no coffee \u8336 here").asException();
            case "limited":
                throw new RpcException(RpcException.LIMIT_EXCEEDED_EXCEPTION, "limited");
            case "illegal":
                throw new IllegalStateException("illegal");
            default:
                return StringValue.of(wish.getValue() + " is ready");
        }
    }

    @Override
    public void pour(StringValue wish, StreamObserver<StringValue> out) {
        for (int i = 0; i < 3; i++) {
            out.onNext(StringValue.of("cup " + i));
        }
        if (wish.getValue().equals("coffee")) {
            out.onError(TriRpcStatus.NOT_FOUND.withDescription("no coffee here").asException());
            return;
        }
        out.onNext(StringValue.of("enough"));
        out.onCompleted();
    }

    @Override
    public StreamObserver<StringValue> taste(StreamObserver<StringValue> out) {
        return new StreamObserver<StringValue>() {
            @Override
            public void onNext(StringValue sip) {
                out.onNext(StringValue.of("good " + sip.getValue()));
            }

            @Override
            public void onError(Throwable thrown) {}

            @Override
            public void onCompleted() {
                out.onNext(StringValue.of("enough"));
                out.onCompleted();
            }
        };
    }
}
