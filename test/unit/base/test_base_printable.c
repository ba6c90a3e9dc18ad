/* SPDX-License-Identifier: BSD-3-Clause */
/* What a terminal would obey is shown instead. */
#include <string.h>

#include "common.h"
#include "printable.h"
#include "unit.h"

static void test_text(void **state)
{
    static const struct {
        const char *text, *printed;
    } t[] = {
        {"", ""},
        {"ib_send_bw", "ib_send_bw"},
        {"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x99\x82", "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x99\x82"},
        {"a\x1b[2Jb", "a\\x1b[2Jb"},
        {"\a\b\t\n\r\x01\x7f", "\\x07\\x08\\x09\\x0a\\x0d\\x01\\x7f"},
        {"\xc2\x9b"
         "31m",
         "\\xc2\\x9b31m"}, /* C1's CSI */
        {"a\xe2\x80\xae"
         "b",
         "a\\xe2\\x80\\xaeb"},                        /* right-to-left override */
        {"bad \xff name", "bad \\xff name"},          /* no UTF-8 */
        {"\x9b", "\\x9b"},                            /* a bare C1 */
        {"\xc0\x9b", "\\xc0\\x9b"},                   /* ESC in two bytes */
        {"\xe0\x80\x9b", "\\xe0\\x80\\x9b"},          /* and in three */
        {"\xed\xa0\x80", "\\xed\\xa0\\x80"},          /* a surrogate */
        {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"}, /* behind the last character */
        {"x\xe2\x82", "x\\xe2\\x82"},                 /* cut off, as /proc/PID/comm does */
    };

    for (unsigned i = 0; i < ARRAY_SIZE(t); i++) {
        char out[64];

        printable(out, sizeof(out), t[i].text);
        assert_string_equal(out, t[i].printed);
    }
}

/* Only whole characters, and never behind the end. */
static void test_room(void **state)
{
    char out[8];

    memset(out, 'z', sizeof(out));
    printable(out, 1, "abc");
    assert_string_equal(out, "");
    assert_int_equal(out[1], 'z');
    printable(out, 6, "ab\x1b");
    assert_string_equal(out, "ab");
    printable(out, 7, "ab\x1b");
    assert_string_equal(out, "ab\\x1b");
    printable(out, 4, "ab\xc3\xa9");
    assert_string_equal(out, "ab");
    printable(out, 5, "ab\xc3\xa9");
    assert_string_equal(out, "ab\xc3\xa9");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
