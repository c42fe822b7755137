package org.example.peer.tri;

import com.google.protobuf.StringValue;
import org.apache.dubbo.common.stream.StreamObserver;
import org.example.peer.Caller;
import org.example.peer.Words;

/** Calls the methods of {@link Tea}. */
public final class TeaCalls implements Caller<Tea> {

    @Override
    public Object call(Tea tea, Words words) throws Exception {
        StringValue arg = StringValue.of(words.text("arg", "oolong"));
        Heard<StringValue> heard = new Heard<>(StringValue::getValue);
        switch (words.text("method", "brew")) {
            case "brew":
                return tea.brew(arg).getValue();
            case "pour":
                tea.pour(arg, heard);
                return heard.end();
            case "taste":
                StreamObserver<StringValue> sips = tea.taste(heard);
                for (int i = 0; i < 3; i++) {
                    sips.onNext(arg);
                }
                sips.onCompleted();
                return heard.end();
            default:
                throw new IllegalArgumentException(words.text("method", ""));
        }
    }
}
