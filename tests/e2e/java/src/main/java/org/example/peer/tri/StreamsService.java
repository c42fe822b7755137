package org.example.peer.tri;

import java.util.concurrent.atomic.AtomicInteger;
import org.apache.dubbo.common.stream.StreamObserver;
import org.example.peer.GreetingException;

/** Every stream ends with the name of the provider that served it. */
public class StreamsService implements Streams {
    private final String name;
    private final AtomicInteger cancelled = new AtomicInteger();

    public StreamsService(String name, int port) {
        this.name = name;
    }

    @Override
    public void many(String wish, StreamObserver<String> out) {
        String[] words = wish.split(" ");
        String padding = new String(new char[Integer.parseInt(words[1])]).replace('\0', '.');
        for (int i = 0; i < Integer.parseInt(words[0]); i++) {
            out.onNext(i + padding);
        }
        if (words.length > 2) {
            out.onError(new GreetingException("no more tea"));
            return;
        }
        out.onNext("from " + name);
        out.onCompleted();
    }

    @Override
    public StreamObserver<String> join(StreamObserver<String> out) {
        return new Conversation(out) {
            private int messages;
            private long length;

            @Override
            public void onNext(String message) {
                messages++;
                length += message.length();
            }

            @Override
            public void onCompleted() {
                out.onNext(messages + " of " + length + " from " + name);
                out.onCompleted();
            }
        };
    }

    @Override
    public StreamObserver<String> chat(StreamObserver<String> out) {
        return new Conversation(out) {
            @Override
            public void onNext(String message) {
                if (message.equals("fail")) {
                    out.onError(new IllegalStateException("no more tea"));
                    return;
                }
                out.onNext("re " + message);
            }

            @Override
            public void onCompleted() {
                out.onNext("from " + name);
                out.onCompleted();
            }
        };
    }

    @Override
    public int cancelled() {
        return cancelled.get();
    }

    /** What the consumer's streams have in common: an error is a cancellation. */
    private abstract class Conversation implements StreamObserver<String> {
        final StreamObserver<String> out;

        Conversation(StreamObserver<String> out) {
            this.out = out;
        }

        @Override
        public void onError(Throwable thrown) {
            cancelled.incrementAndGet();
        }
    }
}
