/* What both Dubbo programs share: the frame header and Hessian2 strings.
 *
 * Header, 16 bytes, big-endian: magic, flags, status, 8-byte id, 4-byte body length
 * (Dubbo's ExchangeCodec). The low 5 flag bits are the serialization; 2 is Hessian2.
 */
#ifndef BENCH_DUBBO_H
#define BENCH_DUBBO_H

#include "sockets.h"

enum {
    HEADER_SIZE = 16,
    FLAG_REQUEST = 0x80,
    FLAG_TWO_WAY = 0x40,
    FLAG_EVENT = 0x20,
    SERIALIZATION_MASK = 0x1f,
    HESSIAN2 = 2,
    STATUS_OK = 20,
    KIND_VALUE_WITH_ATTACHMENTS = 0x94, /* Hessian2's one-byte int 4 */
};

static inline void put_u64(uint8_t *at, uint64_t value) {
    put_u32(at, (uint32_t)(value >> 32));
    put_u32(at + 4, (uint32_t)value);
}

static inline uint64_t get_u64(const uint8_t *at) {
    return (uint64_t)get_u32(at) << 32 | get_u32(at + 4);
}

static inline bool has_magic(const uint8_t *frame) { return frame[0] == 0xda && frame[1] == 0xbb; }

static inline void put_header(uint8_t *at, uint8_t flags, uint8_t status, uint64_t id,
                              uint32_t body_size) {
    at[0] = 0xda;
    at[1] = 0xbb;
    at[2] = flags;
    at[3] = status;
    put_u64(at + 4, id);
    put_u32(at + 12, body_size);
}

/* Appends an ASCII string of at most 1,023 characters in Hessian2's short forms. */
static inline uint8_t *put_string(uint8_t *at, const char *text) {
    size_t size = strlen(text);
    if (size > 1023) fail("string too long");
    if (size < 32) {
        *at++ = (uint8_t)size;
    } else {
        *at++ = (uint8_t)(0x30 + (size >> 8));
        *at++ = (uint8_t)size;
    }
    memcpy(at, text, size);
    return at + size;
}

#endif
