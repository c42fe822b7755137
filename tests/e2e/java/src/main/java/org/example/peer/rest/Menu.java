package org.example.peer.rest;

import java.util.Map;
import org.apache.dubbo.common.stream.StreamObserver;
import org.apache.dubbo.remoting.http12.HttpMethods;
import org.apache.dubbo.remoting.http12.rest.Mapping;
import org.apache.dubbo.remoting.http12.rest.Param;
import org.apache.dubbo.remoting.http12.rest.ParamType;

/** A service with paths of its own. */
@Mapping("/api/menu")
public interface Menu {

    /** A dish of the given name and size; the status 418 for coffee. */
    @Mapping(value = "/{name}", method = HttpMethods.GET)
    Object dish(
            @Param(value = "name", type = ParamType.PathVariable) String name,
            @Param(value = "size", required = false) String size);

    @Mapping(value = "/orders", method = HttpMethods.POST)
    Map<String, Object> order(Map<String, Object> wish);

    @Mapping(value = "/news/{count}", method = HttpMethods.GET)
    void news(@Param(value = "count", type = ParamType.PathVariable) String count, StreamObserver<String> out);
}
