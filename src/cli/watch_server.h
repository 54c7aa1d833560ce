/* watch_server.h - the live page of musec watch, on this machine alone. */
#ifndef MS_CLI_WATCH_SERVER_H
#define MS_CLI_WATCH_SERVER_H

#include "core/status.h"

typedef struct ms_watch_server ms_watch_server;

/* libmicrohttpd's version, or NULL if this build is without: then there is no page. */
const char *ms_watch_server_version(void);

/* Serves on 127.0.0.1; port 0: the usual one, or any other where that is taken.  Nobody else's
 * browser tab can read the data: requests must name this host. */
musec_status ms_watch_server_start(ms_error *e, int port, ms_watch_server **out);
int          ms_watch_server_port(const ms_watch_server *s);
/* Sets the content of /data.json; takes ownership of `text`, which was malloc'ed. */
void ms_watch_server_put(ms_watch_server *s, char *text);
void ms_watch_server_stop(ms_watch_server *s); /* accepts NULL */

#endif
