/* SPDX-License-Identifier: BSD-3-Clause */
/* See table.h. */
#include "table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "printable.h"

#define KEY_MAX 128
/* The longest texts are values of the configuration and rules of faults, of 255 bytes. */
#define CELL_MAX   (255 * PRINTABLE_GROWTH + 1)
#define COLUMN_GAP 2

struct column {
    char key[KEY_MAX];
    int width;
    int number; /* whether all its cells are numbers */
};

struct table {
    struct column *column;
    int columns;
};

static void format_cell(const json_t *value, char text[CELL_MAX])
{
    text[0] = '\0';
    if (json_is_string(value))
        printable(text, CELL_MAX, json_string_value(value));
    else if (json_is_integer(value))
        snprintf(text, CELL_MAX, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        snprintf(text, CELL_MAX, "%.2f", json_real_value(value));
    else if (json_is_boolean(value))
        snprintf(text, CELL_MAX, "%s", json_is_true(value) ? "yes" : "no");
}

/* Adds a column for the first n bytes of key, unless it exists. 0 or -ENOMEM. */
static int add_column(struct table *t, const char *key, size_t n)
{
    struct column *more;

    for (int i = 0; i < t->columns; i++)
        if (strlen(t->column[i].key) == n && strncmp(t->column[i].key, key, n) == 0)
            return 0;
    more = realloc(t->column, (size_t)(t->columns + 1) * sizeof(*more));
    if (more == NULL)
        return -ENOMEM;
    t->column = more;
    more += t->columns++;
    snprintf(more->key, sizeof(more->key), "%.*s", (int)n, key);
    more->width = (int)strlen(more->key);
    more->number = 1;
    return 0;
}

static int add_named_columns(struct table *t, const char *names)
{
    int err = 0;

    while (err == 0 && *names != '\0') {
        size_t n = strcspn(names, " ");

        err = add_column(t, names, n);
        names += n;
        names += *names == ' ';
    }
    return err;
}

static int add_all_columns(struct table *t, const json_t *rows)
{
    const char *key;
    json_t *row, *value;
    size_t i;

    json_array_foreach(rows, i, row)
    {
        json_object_foreach(row, key,
                            value) if (add_column(t, key, strlen(key)) != 0) return -ENOMEM;
    }
    return 0;
}

static void measure_columns(struct table *t, const json_t *rows)
{
    json_t *row;
    size_t i;

    json_array_foreach(rows, i, row)
    {
        for (struct column *c = t->column; c < t->column + t->columns; c++) {
            const json_t *value = json_object_get(row, c->key);
            char text[CELL_MAX];
            int width;

            format_cell(value, text);
            width = (int)strlen(text);
            if (width > c->width)
                c->width = width;
            if (value != NULL && !json_is_number(value))
                c->number = 0;
        }
    }
}

/* row NULL: prints the column titles. */
static void print_row(FILE *out, const struct table *t, const json_t *row)
{
    for (int i = 0; i < t->columns; i++) {
        const struct column *c = &t->column[i];
        int last = i == t->columns - 1;
        char text[CELL_MAX];

        if (row == NULL)
            snprintf(text, sizeof(text), "%s", c->key);
        else
            format_cell(json_object_get(row, c->key), text);
        if (c->number)
            fprintf(out, "%*s", c->width, text);
        else
            fprintf(out, "%-*s", last ? 0 : c->width, text);
        fprintf(out, "%*s", last ? 0 : COLUMN_GAP, "");
    }
    fputc('\n', out);
}

int table_print(FILE *out, const json_t *rows, const char *columns)
{
    struct table t = {0};
    json_t *row;
    size_t i;
    int err = columns != NULL ? add_named_columns(&t, columns) : add_all_columns(&t, rows);

    if (err == 0) {
        measure_columns(&t, rows);
        print_row(out, &t, NULL);
        json_array_foreach(rows, i, row) print_row(out, &t, row);
    }
    free(t.column);
    return err;
}
