package org.example.peer;

/** Calls the methods of one interface T as words ask; the class is named like T with "Calls" behind. */
public interface Caller<T> {

    /** The outcome as plain values. */
    Object call(T proxy, Words words) throws Exception;
}
