/* Opens connections at a bounded rate, each from the next of many addresses, and sends a few bytes.

   flood PORT ADDRESSES PER_SECOND OPEN_LIMIT [HELLO_FILE]

   Connects to 127.0.0.1:PORT from 127.0.0.2, 127.0.0.3 … Sends the file's bytes, or one byte, reads
   nothing, and keeps as many open as the limit says: the oldest is closed for the newest. Ends with
   standard input; prints how many were connected. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST_OPEN = 8192, HELLO_SIZE = 4096 };
static int links[MOST_OPEN], is_sent[MOST_OPEN];

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static int begin(int port, int number) {
    struct sockaddr_in from = {.sin_family = AF_INET}, to = {.sin_family = AF_INET};
    from.sin_addr.s_addr = htonl(0x7f000002u + number);
    to.sin_addr.s_addr = htonl(0x7f000001u);
    to.sin_port = htons(port);
    int link = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    struct linger at_once = {1, 0}; /* RST: no port is left in TIME_WAIT */
    if (link < 0) return -1;
    setsockopt(link, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    int late = 1;
    setsockopt(link, IPPROTO_IP, 24 /* IP_BIND_ADDRESS_NO_PORT */, &late, sizeof late);
    if (bind(link, (void *)&from, sizeof from) ||
        (connect(link, (void *)&to, sizeof to) && errno != EINPROGRESS)) {
        close(link);
        return -1;
    }
    return link;
}

int main(int count, char **words) {
    if (count < 5) return 2;
    int port = atoi(words[1]), addresses = atoi(words[2]), limit = atoi(words[4]);
    double rate = atof(words[3]);
    static char hello[HELLO_SIZE] = {22};
    size_t size = 1;
    if (count > 5) {
        FILE *file = fopen(words[5], "rb");
        if (!file || !(size = fread(hello, 1, sizeof hello, file))) return 2;
        fclose(file);
    }
    if (limit > MOST_OPEN) limit = MOST_OPEN;
    memset(links, -1, sizeof links);
    long begun = 0, sent = 0;
    double start = now();
    struct pollfd input = {0, POLLIN | POLLHUP, 0};
    while (poll(&input, 1, 2) == 0) {
        /* What is late by more than a tenth of a second is left out: no burst makes up for it. */
        double due = (now() - start) * rate;
        if (due - begun > rate / 10) start += (due - begun - rate / 10) / rate, due = begun + rate / 10;
        for (; begun < due; begun++) {
            int slot = begun % limit;
            if (links[slot] >= 0) close(links[slot]);
            links[slot] = begin(port, begun % addresses);
            is_sent[slot] = 0;
        }
        /* Whatever is not connected within 50 ms sends nothing. */
        for (long number = begun - (long)(rate / 20) - 1; number < begun; number++) {
            int slot = number < 0 ? 0 : number % limit;
            if (links[slot] >= 0 && !is_sent[slot] && send(links[slot], hello, size, MSG_NOSIGNAL) > 0)
                is_sent[slot] = 1, sent++;
        }
    }
    printf("%ld %ld\n", begun, sent);
    return 0;
}
