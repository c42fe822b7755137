package org.example.peer.tri;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.apache.dubbo.common.stream.StreamObserver;
import org.example.peer.Calls;

/** What came back on a stream: how many messages of what length, the last one, and how it ended. */
final class Heard<T> implements StreamObserver<T> {
    private static final int LONGEST_WAIT_S = 30;

    private final Function<T, String> text;
    private final BlockingQueue<String> unread = new LinkedBlockingQueue<>();
    private final CountDownLatch over = new CountDownLatch(1);
    private int messages;
    private long length;
    private String last;
    private Throwable thrown;

    Heard(Function<T, String> text) {
        this.text = text;
    }

    @Override
    public void onNext(T message) {
        messages++;
        last = text.apply(message);
        length += last.length();
        unread.add(last);
    }

    @Override
    public void onError(Throwable thrown) {
        this.thrown = thrown;
        over.countDown();
    }

    @Override
    public void onCompleted() {
        over.countDown();
    }

    /** The next message, or null when none comes in time. */
    String next(int millis) throws InterruptedException {
        return unread.poll(millis, TimeUnit.MILLISECONDS);
    }

    /** Waits for the end of the stream. */
    Map<String, Object> end() throws InterruptedException {
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("ended", over.await(LONGEST_WAIT_S, TimeUnit.SECONDS));
        answer.put("messages", messages);
        answer.put("length", length);
        answer.put("last", last == null ? null : last.substring(0, Math.min(last.length(), 100)));
        if (thrown != null) {
            answer.putAll(Calls.describe(thrown));
        }
        return answer;
    }
}
