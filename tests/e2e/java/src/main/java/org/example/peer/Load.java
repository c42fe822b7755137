package org.example.peer;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

/** Calls from several threads until told to stop or the count is used up; answers are counted by provider. */
final class Load implements Runnable {
    private static final int KEPT_ERRORS = 20;
    private static final int KEPT_TEXT = 150;

    private final Object proxy;
    private final Words words;
    private final AtomicInteger left;
    private final List<Thread> threads = new ArrayList<>();
    private final Map<String, AtomicInteger> histogram = new ConcurrentHashMap<>();
    private final Map<String, AtomicInteger> failures = new ConcurrentHashMap<>();
    private final AtomicLong worstNanos = new AtomicLong();
    private volatile boolean stopped;

    private Load(Object proxy, Words words) {
        this.proxy = proxy;
        this.words = words;
        this.left = new AtomicInteger(words.number("n", Integer.MAX_VALUE));
    }

    static Load start(Object proxy, Words words) {
        Load load = new Load(proxy, words);
        for (int i = 0; i < words.number("threads", 1); i++) {
            Thread thread = new Thread(load, "load-" + i);
            thread.setDaemon(true);
            load.threads.add(thread);
            thread.start();
        }
        return load;
    }

    /** Ends the load at once or when its count is used up. */
    Map<String, Object> finish(boolean now) throws InterruptedException {
        stopped = now;
        for (Thread thread : threads) {
            thread.join();
        }
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("histogram", histogram);
        answer.put("failures", failures);
        answer.put("worst_ms", worstNanos.get() / 1000000);
        return answer;
    }

    @Override
    public void run() {
        int pause = words.number("pause", 0);
        while (!stopped && left.getAndDecrement() > 0) {
            one();
            if (pause > 0) {
                try {
                    Thread.sleep(pause);
                } catch (InterruptedException e) {
                    return;
                }
            }
        }
    }

    private void one() {
        long begin = System.nanoTime();
        try {
            Object value = Calls.invoke(proxy, words);
            String answered = value instanceof Map ? String.valueOf(((Map<?, ?>) value).get("name")) : after(value);
            count(histogram, answered);
        } catch (Throwable thrown) {
            Map<String, Object> described = Calls.describe(thrown);
            String text = String.valueOf(described.get("root"));
            text = text.substring(0, Math.min(text.length(), KEPT_TEXT));
            String key = described.get("thrown") + " " + described.get("code") + " " + text;
            count(failures, failures.size() < KEPT_ERRORS || failures.containsKey(key) ? key : "further kinds");
        }
        worstNanos.accumulateAndGet(System.nanoTime() - begin, Math::max);
    }

    /** Text answers end with the provider's name. */
    private static String after(Object value) {
        String text = String.valueOf(value);
        return text.substring(text.lastIndexOf(' ') + 1);
    }

    private static void count(Map<String, AtomicInteger> counts, String key) {
        counts.computeIfAbsent(key, k -> new AtomicInteger()).incrementAndGet();
    }
}
