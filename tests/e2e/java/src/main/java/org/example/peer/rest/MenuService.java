package org.example.peer.rest;

import java.util.Map;
import java.util.TreeMap;
import org.apache.dubbo.common.stream.StreamObserver;
import org.apache.dubbo.remoting.http12.HttpResult;

/** Every answer names the provider that gave it. */
public class MenuService implements Menu {
    private static final int TEAPOT = 418;

    private final String provider;

    public MenuService(String name, int port) {
        this.provider = name;
    }

    @Override
    public Object dish(String name, String size) {
        if (name.equals("coffee")) {
            return HttpResult.builder().status(TEAPOT).body("no coffee here").build();
        }
        Map<String, String> answer = new TreeMap<>();
        answer.put("dish", name);
        answer.put("size", size);
        answer.put("from", provider);
        return answer;
    }

    @Override
    public Map<String, Object> order(Map<String, Object> wish) {
        Map<String, Object> answer = new TreeMap<>(wish);
        answer.put("from", provider);
        return answer;
    }

    @Override
    public void news(String count, StreamObserver<String> out) {
        for (int i = 0; i < Integer.parseInt(count); i++) {
            out.onNext("news " + i);
        }
        out.onNext("from " + provider);
        out.onCompleted();
    }
}
