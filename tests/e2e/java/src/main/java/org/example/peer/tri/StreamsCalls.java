package org.example.peer.tri;

import java.util.Map;
import org.apache.dubbo.common.stream.StreamObserver;
import org.example.peer.Caller;
import org.example.peer.Words;

/** Calls the methods of {@link Streams}. */
public final class StreamsCalls implements Caller<Streams> {

    @Override
    public Object call(Streams streams, Words words) throws Exception {
        Heard<String> heard = new Heard<>(message -> message);
        switch (words.text("method", "")) {
            case "many":
                streams.many(words.text("arg", "3 0"), heard);
                return heard.end();
            case "join":
                StreamObserver<String> parts = streams.join(heard);
                String part = new String(new char[words.number("size", 1)]).replace('\0', '.');
                for (int i = 0; i < words.number("arg", 3); i++) {
                    parts.onNext(part);
                }
                parts.onCompleted();
                return heard.end();
            case "chat":
                return chat(streams.chat(heard), heard, words);
            case "abandon":
                StreamObserver<String> abandoned = streams.chat(heard);
                abandoned.onNext("hi");
                heard.next(5000);
                abandoned.onError(new IllegalStateException("gone"));
                return null; // nothing more is heard
            case "cancelled":
                return streams.cancelled();
            default:
                throw new IllegalArgumentException(words.text("method", ""));
        }
    }

    /** Says each word when the one before was answered. */
    private static Map<String, Object> chat(StreamObserver<String> out, Heard<String> heard, Words words)
            throws InterruptedException {
        for (String message : words.text("arg", "a b c").split(" ")) {
            out.onNext(message);
            if (heard.next(message.equals("fail") ? 1000 : 5000) == null) {
                return heard.end();
            }
            Thread.sleep(words.number("pause", 0));
        }
        out.onCompleted();
        return heard.end();
    }
}
