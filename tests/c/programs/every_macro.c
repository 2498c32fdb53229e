/* Every macro of the header, for C99 and C++11 alike, with and without ZPROF_DISABLE. */
#include <zprof.h>
/* Twice does no harm. */
#include <zprof.h>

int every_macro(int number, const char *text);

int every_macro(int number, const char *text) {
    ZPROF_SITE(site, "site");
    ZPROF_SITE_AT(other, "other", ZPROF_INFO, ZPROF_FILTER(0) | ZPROF_FILTER(63));
    ZPROF_SCOPE("scope");
    ZPROF_SCOPE_WITH("with", ZPROF_INT("number", number));
    ZPROF_SCOPE_OF(&site);
    ZPROF_SCOPE_OF_WITH(&other, ZPROF_STR("text", text), ZPROF_STRN("part", text, 1), ZPROF_BOOL("is", number > 0));
    if (number > 0) {
        ZPROF_SCOPE_WITH("kinds", ZPROF_UINT("u", 1u), ZPROF_FLOAT("f", 1.0f), ZPROF_SENDS(1), ZPROF_RECEIVES(2),
                         ZPROF_STEP(number));
    }
    const zprof_scope begun = ZPROF_BEGIN_OF(&site);
    const zprof_scope with = ZPROF_BEGIN_OF_WITH(&other, ZPROF_ROOT());
    ZPROF_NOTE(begun, ZPROF_INT("later", number));
    ZPROF_END(with);
    ZPROF_END(begun);
    if (number > 1)
        ZPROF_INSTANT("instant");
    else
        ZPROF_INSTANT_WITH("instant", ZPROF_INT("number", number));
    ZPROF_INSTANT_OF(&site);
    ZPROF_INSTANT_OF_WITH(&site, ZPROF_INT("number", number));
    ZPROF_COUNTER("counter", ZPROF_INT("value", number));
    ZPROF_COUNTER_OF(&site, ZPROF_UINT("value", 1));
    return zprof_listening() ? 1 : 0;
}
