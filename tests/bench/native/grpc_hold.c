/* Consumers that hold what they have opened: idle connections, or streams that are read slowly.
 *
 *   grpc_hold --to HOST:PORT --connections 1000
 *   grpc_hold --to HOST:PORT --connections 10 --streams 1000 --window 65535 --read 1024
 *
 * Without --streams each connection makes one call and is silent when it is answered. With it each
 * connection opens that many endless downloads and takes --read bytes a second from each: its
 * window is given back that slowly, and never with 0. One JSON line is printed when every call is
 * answered, or the head of every download is here; another one after SIGTERM or SIGINT.
 */
#define _GNU_SOURCE
#include <sys/timerfd.h>

#include "http2.h"

/* Each tick reads from one slice of the streams, so that the reading is even over the second. */
enum { TICKS_PER_SECOND = 20 };

struct stream {
    int32_t id;
    bool is_over;
    size_t unread;
};

struct connection {
    struct link link;
    struct stream *streams;
};

static struct {
    struct sockaddr_in target;
    const char *authority;
    int connections, streams;
    uint32_t window;
    size_t read;
} options = {.connections = 1, .window = 65535};

static struct {
    uint64_t bytes, begun, over;
} seen;

static int epoll;

static bool is_slow(void) { return options.streams > 0; }

static ssize_t read_message(nghttp2_session *session, int32_t stream_id, uint8_t *at, size_t space,
                            uint32_t *flags, nghttp2_data_source *source, void *context) {
    (void)session, (void)stream_id, (void)source, (void)context;
    if (space < PREFIX_SIZE) return NGHTTP2_ERR_CALLBACK_FAILURE; /* 13,000 of them fit at first */
    memset(at, 0, PREFIX_SIZE); /* an empty message */
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    return PREFIX_SIZE;
}

static void open_stream(struct connection *connection, struct stream *stream) {
    struct request request = new_request(
        options.authority,
        is_slow() ? "/org.example.Greeter/download" : "/org.example.Greeter/sayHello");
    if (is_slow()) add_field(&request, "messages", "1000000000");
    nghttp2_data_provider source = {.read_callback = read_message};
    stream->id = nghttp2_submit_request(connection->link.session, NULL, request.fields,
                                        request.count, &source, stream);
    if (stream->id < 0) fail("request");
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream_id, const uint8_t *data,
                   size_t size, void *context) {
    (void)flags, (void)data, (void)context;
    struct stream *stream = nghttp2_session_get_stream_user_data(session, stream_id);
    seen.bytes += size;
    if (stream) stream->unread += size;
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *context) {
    (void)session, (void)context;
    bool is_end = frame->hd.flags & NGHTTP2_FLAG_END_STREAM; /* a head alone: a refusal */
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_RESPONSE && !is_end)
        seen.begun++;
    return 0;
}

static int on_close(nghttp2_session *session, int32_t stream_id, uint32_t code, void *context) {
    (void)code, (void)context;
    struct stream *stream = nghttp2_session_get_stream_user_data(session, stream_id);
    if (stream) stream->is_over = true;
    seen.over++;
    return 0;
}

static void open_connection(struct connection *connection) {
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *by_hand;
    struct link *link = &connection->link;
    size_t streams = is_slow() ? (size_t)options.streams : 1;
    open_link(link, connect_to(&options.target));
    connection->streams = calloc(streams, sizeof *connection->streams);
    if (!connection->streams || nghttp2_session_callbacks_new(&callbacks) != 0 ||
        nghttp2_option_new(&by_hand) != 0)
        fail("memory");
    nghttp2_option_set_no_auto_window_update(by_hand, 1);
    nghttp2_option_set_peer_max_concurrent_streams(by_hand, MAX_WINDOW);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    if (nghttp2_session_client_new2(&link->session, callbacks, connection, by_hand) != 0)
        fail("memory");
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_option_del(by_hand);
    open_session(link->session, options.window);
    for (size_t index = 0; index < streams; index++)
        open_stream(connection, &connection->streams[index]);
    watch(epoll, EPOLL_CTL_ADD, link->fd, EPOLLIN, link);
    if (!flush_link(epoll, link)) fail("first write");
}

/* Takes one second's worth from one slice of the streams of every connection. */
static void read_slowly(struct connection *connections) {
    static int tick;
    tick = (tick + 1) % TICKS_PER_SECOND;
    for (int index = 0; index < options.connections; index++) {
        struct connection *connection = &connections[index];
        if (connection->link.fd < 0) continue;
        for (int at = tick; at < options.streams; at += TICKS_PER_SECOND) {
            struct stream *stream = &connection->streams[at];
            size_t size = stream->unread < options.read ? stream->unread : options.read;
            if (stream->is_over || size == 0) continue;
            stream->unread -= size;
            nghttp2_session_consume(connection->link.session, stream->id, size);
        }
        if (!flush_link(epoll, &connection->link)) close_link(&connection->link);
    }
}

static int start_ticks(void) {
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct timespec tick = {.tv_nsec = 1000000000 / TICKS_PER_SECOND};
    struct itimerspec when = {.it_interval = tick, .it_value = tick};
    if (options.read > 0 && timerfd_settime(timer, 0, &when, NULL) < 0) fail("timer");
    return timer;
}

static void print_state(const char *state, const struct connection *connections) {
    int lost = 0;
    for (int index = 0; index < options.connections; index++)
        lost += connections[index].link.fd < 0;
    printf("{\"state\": \"%s\", \"begun\": %lu, \"over\": %lu, \"bytes\": %lu, "
           "\"lost_connections\": %d}\n",
           state, seen.begun, seen.over, seen.bytes, lost);
    fflush(stdout);
}

static void run(struct connection *connections, int stop) {
    int timer = start_ticks();
    uint64_t wanted = (uint64_t)options.connections * (is_slow() ? (uint64_t)options.streams : 1);
    bool is_complete = false;
    watch(epoll, EPOLL_CTL_ADD, timer, EPOLLIN, &timer);
    watch(epoll, EPOLL_CTL_ADD, stop, EPOLLIN, NULL);
    for (;;) {
        struct epoll_event events[EVENTS];
        int ready = epoll_wait(epoll, events, EVENTS, -1);
        for (int index = 0; index < ready; index++) {
            struct link *link = events[index].data.ptr;
            uint64_t expirations;
            if (!link) return;
            if ((void *)link == &timer) {
                if (read(timer, &expirations, sizeof expirations) > 0) read_slowly(connections);
            } else if (link->fd >= 0 && (!read_link(link) || !flush_link(epoll, link))) {
                close_link(link);
            }
        }
        if (is_complete || (is_slow() ? seen.begun : seen.over) < wanted) continue;
        is_complete = true;
        print_state("held", connections);
    }
}

static void read_options(int count, char **arguments) {
    static const struct option known[] = {
        {"to", required_argument, NULL, 't'},      {"connections", required_argument, NULL, 'c'},
        {"streams", required_argument, NULL, 's'}, {"window", required_argument, NULL, 'w'},
        {"read", required_argument, NULL, 'r'},    {0}};
    int option;
    while ((option = getopt_long(count, arguments, "", known, NULL)) != -1) {
        switch (option) {
            case 't': options.target = parse_address(options.authority = optarg); break;
            case 'c': options.connections = atoi(optarg); break;
            case 's': options.streams = atoi(optarg); break;
            case 'w': options.window = (uint32_t)atol(optarg); break;
            case 'r': options.read = (size_t)atol(optarg); break;
            default: exit(2);
        }
    }
    if (!options.authority || options.connections < 1 || options.streams < 0) {
        fprintf(stderr, "usage: grpc_hold --to HOST:PORT --connections N "
                        "[--streams N --window BYTES --read BYTES_PER_SECOND]\n");
        exit(2);
    }
}

int main(int count, char **arguments) {
    int stop = stop_signal();
    read_options(count, arguments);
    epoll = epoll_create1(0);
    struct connection *connections = calloc((size_t)options.connections, sizeof *connections);
    if (!connections) fail("memory");
    for (int index = 0; index < options.connections; index++)
        open_connection(&connections[index]);
    run(connections, stop);
    print_state("ended", connections);
    return 0;
}
