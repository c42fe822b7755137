package org.example.peer.tri;

import com.google.protobuf.StringValue;
import org.apache.dubbo.common.stream.StreamObserver;
import org.apache.dubbo.rpc.model.DubboStub;

/** A service as Dubbo's compiler makes it of a .proto file; its messages are of protobuf's own types. */
public interface Tea extends DubboStub {
    String JAVA_SERVICE_NAME = "org.example.peer.tri.Tea";
    String SERVICE_NAME = "org.example.tea.Tea";

    StringValue brew(StringValue wish);

    void pour(StringValue wish, StreamObserver<StringValue> out);

    StreamObserver<StringValue> taste(StreamObserver<StringValue> out);
}
