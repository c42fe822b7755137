package org.example.peer.tri;

import org.apache.dubbo.common.stream.StreamObserver;

/** The kinds of streams, with arguments that are no protobuf messages. */
public interface Streams {

    /** Server stream: the wish has the form "COUNT SIZE", optionally " fail" to end with an error instead. */
    void many(String wish, StreamObserver<String> out);

    /** Client stream: answers once, when the consumer is done, with how much came. */
    StreamObserver<String> join(StreamObserver<String> out);

    /** Bi-stream: answers each message at once; the message "fail" ends the stream with an error. */
    StreamObserver<String> chat(StreamObserver<String> out);

    /** The streams that were cancelled by consumers so far. */
    int cancelled();
}
