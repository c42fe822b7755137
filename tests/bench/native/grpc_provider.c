/* A gRPC provider: every call is answered at once with the same message and grpc-status 0.
 *
 *   grpc_provider --listen 127.0.0.1:50061 [--listen 127.0.0.1:50062 ...]
 *
 * A path that ends in /download gets a stream of 1 MiB messages: as many as its header "messages"
 * says, 64 without one. Port 0 takes a free port. Once it listens it prints one JSON line with the
 * ports; after SIGTERM or SIGINT one JSON line with what it served. HTTP/2 without TLS only.
 */
#define _GNU_SOURCE
#include "http2.h"

enum { LARGE_SIZE = 1 << 20, MESSAGES = 64, STREAM_WINDOW = 1 << 23 };

static struct {
    uint64_t calls, messages, unfinished, connections;
} served;

/* What a call gets: the same message some number of times. */
struct answer {
    const uint8_t *message;
    size_t size, at; /* of the message, and how much of it was sent */
    uint64_t left;   /* messages, the current one included */
};

static int epoll;
static uint8_t reply[64], large[PREFIX_SIZE + LARGE_SIZE];
static size_t reply_size;

static void build_messages(void) {
    const char *text = "Hello from the benchmark";
    put_u32(reply + 1, (uint32_t)strlen(text));
    memcpy(reply + PREFIX_SIZE, text, strlen(text));
    reply_size = PREFIX_SIZE + strlen(text);
    put_u32(large + 1, LARGE_SIZE);
    memset(large + PREFIX_SIZE, 'x', LARGE_SIZE);
}

static ssize_t read_answer(nghttp2_session *session, int32_t stream_id, uint8_t *at, size_t space,
                           uint32_t *flags, nghttp2_data_source *source, void *context) {
    (void)context;
    struct answer *answer = source->ptr;
    size_t size = answer->size - answer->at;
    if (size > space) size = space;
    memcpy(at, answer->message + answer->at, size);
    answer->at += size;
    if (answer->at < answer->size) return (ssize_t)size;
    answer->at = 0;
    served.messages++;
    if (--answer->left == 0) {
        nghttp2_nv trailers[] = {field("grpc-status", "0")};
        *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        if (nghttp2_submit_trailer(session, stream_id, trailers, 1) != 0) fail("trailers");
    }
    return (ssize_t)size;
}

static int on_begin(nghttp2_session *session, const nghttp2_frame *frame, void *context) {
    (void)context;
    if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
    struct answer *answer = calloc(1, sizeof *answer);
    if (!answer) fail("memory");
    *answer = (struct answer){.message = reply, .size = reply_size, .left = 1};
    nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, answer);
    return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_size, const uint8_t *value, size_t value_size, uint8_t flags,
                     void *context) {
    static const char suffix[] = "/download";
    enum { SUFFIX = sizeof suffix - 1 };
    (void)flags, (void)context;
    struct answer *answer = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (is_field(name, name_size, ":path")) {
        if (value_size >= SUFFIX && memcmp(value + value_size - SUFFIX, suffix, SUFFIX) == 0)
            *answer = (struct answer){.message = large, .size = sizeof large, .left = MESSAGES};
    } else if (is_field(name, name_size, "messages") && answer->message == large) {
        uint64_t wanted = strtoull((const char *)value, NULL, 10); /* libnghttp2 ends it with 0 */
        if (wanted > 0) answer->left = wanted;
    }
    return 0;
}

static void respond(nghttp2_session *session, int32_t stream_id) {
    nghttp2_nv headers[] = {field(":status", "200"), field("content-type", "application/grpc")};
    struct answer *answer = nghttp2_session_get_stream_user_data(session, stream_id);
    nghttp2_data_provider source = {.read_callback = read_answer, .source.ptr = answer};
    served.calls++;
    if (nghttp2_submit_response(session, stream_id, headers, 2, &source) != 0) fail("response");
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *context) {
    (void)context;
    bool is_message = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    if (is_message && frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
        respond(session, frame->hd.stream_id);
    return 0;
}

static int on_close(nghttp2_session *session, int32_t stream_id, uint32_t code, void *context) {
    (void)context;
    if (code != 0) served.unfinished++;
    free(nghttp2_session_get_stream_user_data(session, stream_id));
    return 0;
}

static nghttp2_session *new_session(void) {
    nghttp2_session_callbacks *callbacks;
    nghttp2_session *session;
    if (nghttp2_session_callbacks_new(&callbacks) != 0) fail("memory");
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    if (nghttp2_session_server_new(&session, callbacks, NULL) != 0) fail("memory");
    nghttp2_session_callbacks_del(callbacks);
    open_session(session, STREAM_WINDOW);
    return session;
}

static void serve(struct link *link, uint32_t events) {
    bool alive = !(events & ~(uint32_t)EPOLLOUT) || read_link(link);
    if (alive && flush_link(epoll, link)) return;
    /* Answers cut off by this are never freed: a few bytes each, and a run is short. */
    close_link(link);
    free(link);
}

static void accept_link(int listener) {
    int fd = accept(listener, NULL, NULL);
    if (fd < 0) return;
    struct link *link = calloc(1, sizeof *link);
    if (!link) fail("memory");
    open_link(link, fd);
    link->session = new_session();
    watch(epoll, EPOLL_CTL_ADD, fd, EPOLLIN, link);
    served.connections++;
    serve(link, EPOLLOUT);
}

int main(int count, char **arguments) {
    int stop = stop_signal();
    epoll = epoll_create1(0);
    if (start_listeners(epoll, count, arguments) == 0) {
        fprintf(stderr, "usage: grpc_provider --listen HOST:PORT [--listen HOST:PORT ...]\n");
        return 2;
    }
    build_messages();
    watch(epoll, EPOLL_CTL_ADD, stop, EPOLLIN, NULL);
    for (;;) {
        struct epoll_event events[EVENTS];
        int ready = epoll_wait(epoll, events, EVENTS, -1);
        for (int index = 0; index < ready; index++) {
            void *context = events[index].data.ptr;
            if (!context) goto stopped;
            if (is_listener(context))
                accept_link(*(int *)context);
            else
                serve(context, events[index].events);
        }
    }
stopped:
    printf("{\"calls\": %lu, \"messages\": %lu, \"unfinished\": %lu, \"connections\": %lu, "
           "\"cpu_seconds\": %.3f}\n",
           served.calls, served.messages, served.unfinished, served.connections, cpu_seconds());
    return 0;
}
