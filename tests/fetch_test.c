/* fetch_test.c - downloads from a server that cuts connections, stalls, changes files and fails
 * (tests/tools/http_server.py): they end with the right bytes, or with a message and no file. */
#define _XOPEN_SOURCE 700
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/rng.h"
#include "data/fetch.h"
#include "data/http.h"
#include "scratch.h"

extern char **environ;

enum { FILE_BYTES = 50000 };

/* ---- the server ------------------------------------------------------------------------------ */

static struct {
    pid_t       pid;
    int         input; /* the server ends when this is closed */
    int         port;
    const char *root, *log;
} server;

static unsigned char content[FILE_BYTES];
static char          content_sha256[MS_SHA256_HEX];

static int start_server(void **state)
{
    static const char          script[] = MS_TEST_DATA_DIR "/../tools/http_server.py";
    posix_spawn_file_actions_t actions;
    int                        to[2], from[2];
    char                       line[32] = "";
    ms_sha256                  sha;
    FILE                      *answer;

    (void)state;
    if (ms_http_version() == NULL) return 0;
    server.root  = fresh_dir();
    server.log   = path_in(fresh_dir(), "log");
    char *argv[] = { (char *)"python3", (char *)script, (char *)server.root, (char *)server.log,
                     NULL };
    for (size_t i = 0; i < FILE_BYTES; i++)
        content[i] = (unsigned char)ms_rand_u64(7, i);
    put_file(path_in(server.root, "file"), content, FILE_BYTES);
    put_file(path_in(server.root, "empty"), content, 0);
    ms_sha256_init(&sha);
    ms_sha256_add(&sha, content, FILE_BYTES);
    ms_sha256_end(&sha, content_sha256);
    if (pipe(to) != 0 || pipe(from) != 0) return -1;
    fcntl(to[1], F_SETFD, FD_CLOEXEC);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
    if (posix_spawnp(&server.pid, argv[0], &actions, NULL, argv, environ) != 0) server.pid = 0;
    posix_spawn_file_actions_destroy(&actions);
    close(to[0]);
    close(from[1]);
    server.input = to[1];
    answer       = fdopen(from[0], "r");
    if (answer != NULL && fgets(line, sizeof line, answer) != NULL)
        server.port = (int)strtol(line, NULL, 10);
    if (answer != NULL) fclose(answer);
    return 0;
}

static int stop_server(void **state)
{
    (void)state;
    if (server.pid > 0) {
        close(server.input);
        kill(server.pid, SIGTERM);
        waitpid(server.pid, NULL, 0);
    }
    return 0;
}

/* The address of a file; its path begins with what the server does to it ("cut:9000/file"). */
static const char *address(const char *faults)
{
    char base[64];
    snprintf(base, sizeof base, "http://127.0.0.1:%d", server.port);
    return path_in(base, faults);
}

/* How many requests for this path have this text in the server's log. */
static int requests(const char *faults, const char *text)
{
    char  line[1024], path[256];
    FILE *f = fopen(server.log, "r");
    int   n = 0;

    snprintf(path, sizeof path, "/%s ", faults);
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        n += strncmp(line, path, strlen(path)) == 0 && strstr(line, text) != NULL;
    if (f != NULL) fclose(f);
    return n;
}

/* ---- syncing --------------------------------------------------------------------------------- */

static const char *fails_after; /* directories cannot be synced once there is this file */

/* In place of the C library's. */
int fsync(int fd)
{
    struct stat info;
    if (fails_after != NULL && access(fails_after, F_OK) == 0 && fstat(fd, &info) == 0 &&
        S_ISDIR(info.st_mode)) {
        errno = EIO;
        return -1;
    }
    return fdatasync(fd);
}

/* ---- a download ------------------------------------------------------------------------------ */

typedef struct call {
    const char     *urls[3];
    const char     *path;
    ms_fetch_config cfg;
    ms_fetched      got;
    ms_error        error;
    int             notices;
    char            first_notice[1024], last_notice[1024];
} call;

static void count_notice(void *arg, const char *text)
{
    call *c = arg;
    c->notices++;
    if (c->notices == 1) snprintf(c->first_notice, sizeof c->first_notice, "%s", text);
    snprintf(c->last_notice, sizeof c->last_notice, "%s", text);
}

/* Sets up the download of one file; skips the test where there is no server. */
static void prepare(call *c, const char *faults)
{
    if (ms_http_version() == NULL) SKIP("no libcurl");
    if (server.port == 0) SKIP("no python3");
    *c      = (call){ .urls = { address(faults) } };
    c->path = path_in(fresh_dir(), "got");
    c->cfg  = (ms_fetch_config){ .urls      = c->urls,
                                 .n_urls    = 1,
                                 .path      = c->path,
                                 .bytes     = -1,
                                 .retries   = 2,
                                 .delay_ms  = 1,
                                 .max_bytes = INT64_MAX,
                                 .stall_s   = 100, /* a busy machine must not look stalled */
                                 .on_notice = count_notice,
                                 .arg       = c };
}

static bool exists(const char *path, const char *suffix)
{
    char name[2048];
    snprintf(name, sizeof name, "%s%s", path, suffix);
    return access(name, F_OK) == 0;
}

static void check_got(call *c)
{
    static blob b;
    get_file(c->path, &b);
    CHECK(b.n == FILE_BYTES && memcmp(b.p, content, FILE_BYTES) == 0, "%zu bytes", b.n);
    CHECK(strcmp(c->got.sha256, content_sha256) == 0 && c->got.bytes == FILE_BYTES, "%s",
          c->got.sha256);
    CHECK(!exists(c->path, ".part") && !exists(c->path, ".part.json"), "a part is left");
}

static void fetch_succeeds(call *c)
{
    CHECK_OK_ERR(&c->error, ms_fetch(&c->error, &c->cfg, &c->got));
    check_got(c);
}

/* The download fails with these words; what was received is kept if `kept`. */
static void fetch_fails(call *c, const char *words, bool kept)
{
    const musec_status st = ms_fetch(&c->error, &c->cfg, &c->got);
    CHECK(st != MUSEC_OK, "it worked");
    CHECK(strstr(c->error.text, words) != NULL, "'%s' lacks '%s'", c->error.text, words);
    CHECK(strchr(c->error.text, '\n') == NULL, "more than a line");
    CHECK(!exists(c->path, ""), "there is a file");
    CHECK(exists(c->path, ".part") == kept, "part");
}

/* ---- downloads that succeed ------------------------------------------------------------------ */

TEST(redirects_retries_and_missing_headers_are_handled)
{
    static const char *const faults[] = {
        "plain/file",
        "redirect/file",
        "nolength/file",
        "notag/file",
        "linked/file",
        "norange/file",
        "status:429:2/file",
        "status:500:2/file",
        "status:503:1,slow:9000/file",
        "status:408:1/file",
        "redirect,cut:9000:1/file",
        "notag,cut:9000:2/file",
    };
    for (size_t i = 0; i < COUNT(faults); i++) {
        call c;
        prepare(&c, faults[i]);
        fetch_succeeds(&c);
    }
}

/* The connections are cut more often than there are retries.  A 206 need not repeat the date: if it
 * were forgotten, every other try would begin again. */
TEST(cut_connections_resume_with_ranges)
{
    static const struct {
        const char *faults, *first, *last; /* ranges that were requested, each with If-Range */
    } cases[] = {
        { "cut:12000/file", "bytes=12000- \"", "bytes=48000- \"" },
        { "dated,cut:9000/file", "bytes=9000- Tue, 06 Feb", "bytes=45000- Tue, 06 Feb" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        call c;
        prepare(&c, cases[i].faults);
        fetch_succeeds(&c);
        CHECK(c.got.received == FILE_BYTES, "%lld bytes came", (long long)c.got.received);
        CHECK(requests(cases[i].faults, cases[i].first) == 1 &&
                  requests(cases[i].faults, cases[i].last) == 1,
              "%s: no ranges with If-Range", cases[i].faults);
    }
}

TEST(dates_are_not_sent_to_another_server)
{
    call c;
    prepare(&c, "dated,cut:9000:1/file");
    c.urls[1]     = address("dated,slow:9000,cut:20000:1/file");
    c.cfg.n_urls  = 2;
    c.cfg.sha256  = content_sha256;
    c.cfg.retries = 0;
    fetch_fails(&c, "http://", true);
    c.urls[0]    = c.urls[1];
    c.cfg.n_urls = 1;
    fetch_succeeds(&c);
    CHECK(requests("dated,slow:9000,cut:20000:1/file", "bytes=9000- - 206") == 1 &&
              requests("dated,slow:9000,cut:20000:1/file", "bytes=29000- - 206") == 1,
          "If-Range with the date of another server");
}

TEST(a_second_call_resumes_and_a_third_finds_the_file)
{
    call c;
    prepare(&c, "cut:20000:1/file");
    c.cfg.retries = 0;
    fetch_fails(&c, "http://", true);
    CHECK(exists(c.path, ".part.json"), "no state");
    fetch_succeeds(&c);
    CHECK(c.got.received == FILE_BYTES - 20000, "%lld bytes came", (long long)c.got.received);
    CHECK(!c.got.found, "it was not there");
    CHECK_OK_ERR(&c.error, ms_fetch(&c.error, &c.cfg, &c.got));
    CHECK(c.got.found && c.got.bytes == FILE_BYTES && requests("cut:20000:1/file", "") == 2, "had");
}

/* Else the name of a file that was fetched could be gone after a loss of power. */
TEST(the_directory_of_a_file_is_synced)
{
    call c;
    prepare(&c, "plain/file");
    fails_after           = c.path;
    const musec_status st = ms_fetch(&c.error, &c.cfg, &c.got);
    fails_after           = NULL;
    CHECK(st == MUSEC_EIO, "%s: %s", musec_status_name(st), c.error.text);
    CHECK(strstr(c.error.text, strerror(EIO)) != NULL, "%s", c.error.text);
    CHECK_OK_ERR(&c.error, ms_fetch(&c.error, &c.cfg, &c.got));
}

TEST(a_complete_part_is_not_fetched_again)
{
    call c;
    char part[2048], text[512];
    prepare(&c, "plain/file"); /* as if killed before the renaming */
    fetch_succeeds(&c);
    snprintf(part, sizeof part, "%s.part", c.path);
    CHECK(rename(c.path, part) == 0, "rename");
    c.cfg.sha256 = content_sha256;
    snprintf(part, sizeof part, "%s.part.json", c.path);
    snprintf(text, sizeof text, "{\"url\": \"%s\", \"tag\": \"\", \"bytes\": %d, \"sha256\": \"\"}",
             c.urls[0], FILE_BYTES);
    put_text(part, text);
    fetch_succeeds(&c);
    CHECK(c.got.received == 0 && requests("plain/file", " 416\n") == 1, "it was fetched again");
}

TEST(servers_without_ranges_send_all_again)
{
    call c;
    prepare(&c, "norange,cut:20000:2/file");
    fetch_succeeds(&c);
    CHECK(c.got.received == FILE_BYTES + 40000, "%lld bytes came", (long long)c.got.received);
    CHECK(requests("norange,cut:20000:2/file", "bytes=20000-") == 2, "no range was asked for");
}

TEST(changed_files_are_fetched_from_the_start)
{
    call c;
    prepare(&c, "newtag,cut:20000:1/file");
    fetch_succeeds(&c);
    CHECK(requests("newtag,cut:20000:1/file", "bytes=20000- \"tag 0\"") == 1, "no If-Range");
    CHECK(c.got.received == FILE_BYTES + 20000, "%lld bytes came", (long long)c.got.received);

    prepare(&c, "liar,cut:20000:1/file"); /* sends other bytes each time: a 206 must not be used */
    CHECK_OK_ERR(&c.error, ms_fetch(&c.error, &c.cfg, &c.got));
    static blob b;
    get_file(c.path, &b);
    for (size_t i = 0; i < FILE_BYTES; i++)
        CHECK(b.p[i] == (content[i] ^ 2), "byte %zu is of another file", i);
}

TEST(damaged_parts_are_fetched_from_the_start)
{
    call c;
    char part[2048];
    prepare(&c, "cut:20000:1/file");
    c.urls[0]     = address("cut:20000:1,slow:30000/file");
    c.cfg.sha256  = content_sha256;
    c.cfg.retries = 0;
    fetch_fails(&c, "http://", true);
    snprintf(part, sizeof part, "%s.part", c.path);
    put_file(part, "other bytes than these were in the file", 39);
    c.cfg.retries = 1;
    fetch_succeeds(&c);
    CHECK(c.notices == 1 && strstr(c.last_notice, "sha256") != NULL, "%s", c.last_notice);
}

TEST(stalled_connections_are_closed_and_retried)
{
    call c;
    prepare(&c, "stall:30000:1/file");
    c.cfg.stall_s = 1;
    c.cfg.retries = 20; /* a busy machine may look stalled again */
    fetch_succeeds(&c);
    CHECK(strstr(c.first_notice, "nothing came for 1 second") != NULL, "%s", c.first_notice);
    CHECK(c.got.received == FILE_BYTES, "%lld bytes came", (long long)c.got.received);
}

TEST(mirrors_are_tried_in_turn)
{
    call c;
    prepare(&c, "status:404/file");
    c.urls[1]    = address("cut:20000,norange/file");
    c.urls[2]    = address("plain,slow:25000/file");
    c.cfg.n_urls = 3;
    c.cfg.sha256 = content_sha256;
    fetch_succeeds(&c);
    CHECK(c.got.url == c.urls[2], "from %s", c.got.url);
    CHECK(requests("status:404/file", "") == 1, "404 was tried again");
    CHECK(requests("cut:20000,norange/file", "") == 3, "not three tries");
    /* The sha256 is known, so the third server resumes what the second sent. */
    CHECK(requests("plain,slow:25000/file", "bytes=20000-") == 1, "it began anew");
}

/* ---- downloads that fail --------------------------------------------------------------------- */

TEST(failed_downloads_name_the_reason)
{
    static const struct {
        const char *faults, *words;
        int         tries; /* expected requests; 0: not counted */
        bool        kept;
    } cases[] = {
        { "status:404,plain/file", "HTTP 404 (Not Found); the address may have moved", 1, false },
        { "status:403/file", "HTTP 403 (Forbidden)", 1, false },
        { "status:429/file", "HTTP 429 (Too Many Requests)", 3, false },
        { "status:500/file", "HTTP 500 (Internal Server Error)", 3, false },
        { "status:301/file", "HTTP 301", 1, false },
        { "cut:100,norange/file", "file: ", 3, true },
        { "loop/file", "redirects", 0, false },
        { "newtag,cut:10,notag/file", "file: ", 3, true },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        call c;
        prepare(&c, cases[i].faults);
        fetch_fails(&c, cases[i].words, cases[i].kept);
        CHECK(cases[i].tries == 0 || requests(cases[i].faults, "") == cases[i].tries,
              "%s: %d requests", cases[i].faults, requests(cases[i].faults, ""));
    }
}

TEST(files_of_wrong_size_or_sha256_are_refused)
{
    call c;
    prepare(&c, "corrupt/file");
    c.cfg.sha256 = content_sha256;
    fetch_fails(&c, content_sha256, false);
    CHECK(requests("corrupt/file", "") == 1, "it was tried again");

    prepare(&c, "longer/file");
    c.cfg.bytes = FILE_BYTES;
    fetch_fails(&c, "has 50010 bytes there, 50000 were expected", false);

    prepare(&c, "longer,nolength/file");
    c.cfg.bytes = FILE_BYTES;
    fetch_fails(&c, "after 50010 of 50000 bytes", false);

    prepare(&c, "linked,corrupt:1/file"); /* the redirect has its own count */
    fetch_succeeds(&c);
    CHECK(c.notices == 1 && strstr(c.last_notice, "sha256") != NULL, "%s", c.last_notice);
}

TEST(files_that_are_there_are_verified)
{
    call c;
    prepare(&c, "plain/file");
    put_file(c.path, "short", 5);
    c.cfg.bytes = FILE_BYTES;
    CHECK_FAILS(&c.error, ms_fetch(&c.error, &c.cfg, &c.got), MUSEC_EFORMAT,
                "has 5 bytes, 50000 were expected; remove it");
    put_file(c.path, "short", 5);
    c.cfg.bytes  = 5;
    c.cfg.sha256 = content_sha256;
    c.cfg.verify = true;
    CHECK_FAILS(&c.error, ms_fetch(&c.error, &c.cfg, &c.got), MUSEC_EFORMAT, "its sha256 is");
}

TEST(invalid_addresses_are_not_retried)
{
    static const char *const urls[] = { "file:///etc/passwd", "ftp://localhost/x", "http://" };
    for (size_t i = 0; i < COUNT(urls); i++) {
        call c;
        prepare(&c, "plain/file");
        c.urls[0] = urls[i];
        fetch_fails(&c, urls[i], false);
        CHECK(c.notices == 0, "%s: tried again", urls[i]);
    }
}

TEST(dead_servers_are_retried)
{
    call c;
    prepare(&c, "plain/file");
    c.urls[0] = "http://127.0.0.1:9/nobody"; /* the discard port, without a server */
    fetch_fails(&c, "http://127.0.0.1:9/nobody: ", false);
    CHECK(c.notices == 2, "%d notices", c.notices);
}

/* ---- stopping -------------------------------------------------------------------------------- */

static volatile int stop;

static void stop_soon(void *arg, const ms_fetch_progress *p)
{
    (void)arg;
    if (p->have > 0) stop = 1;
}

TEST(a_stopped_download_keeps_its_part)
{
    call c;
    stop = 0;
    prepare(&c, "slow:1000/file");
    c.cfg.stop        = &stop;
    c.cfg.on_progress = stop_soon;
    fetch_fails(&c, "interrupted; ", true);
    stop          = 0;
    c.urls[0]     = address("slow:1000/file");
    c.cfg.stop    = NULL;
    c.cfg.bytes   = FILE_BYTES;
    c.cfg.retries = 0;
    fetch_succeeds(&c);
    CHECK(c.got.received < FILE_BYTES, "%lld bytes came", (long long)c.got.received);

    stop = 1; /* between two tries */
    prepare(&c, "status:500/file");
    c.cfg.delay_ms = 50000;
    c.cfg.stop     = &stop;
    fetch_fails(&c, "interrupted", false);
}

TEST(empty_files_are_downloaded)
{
    call c;
    prepare(&c, "plain/empty");
    CHECK_OK_ERR(&c.error, ms_fetch(&c.error, &c.cfg, &c.got));
    CHECK(c.got.bytes == 0 && exists(c.path, "") && !exists(c.path, ".part"), "no file");
}

TEST_GROUP(start_server, stop_server)
