/* SPDX-License-Identifier: BSD-3-Clause */
#include "table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CELL_MAX   128
#define COLUMN_GAP 2

/* A scalar or a list of scalars as text of at most CELL_MAX - 1 bytes. */
static void format_cell(const json_t *value, char text[CELL_MAX])
{
    size_t used = 0, i;
    json_t *item;

    text[0] = '\0';
    switch (json_typeof(value)) {
    case JSON_STRING:
        snprintf(text, CELL_MAX, "%s", json_string_value(value));
        return;
    case JSON_INTEGER:
        snprintf(text, CELL_MAX, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        return;
    case JSON_REAL:
        snprintf(text, CELL_MAX, "%.2f", json_real_value(value));
        return;
    case JSON_TRUE:
    case JSON_FALSE:
        snprintf(text, CELL_MAX, "%s", json_is_true(value) ? "yes" : "no");
        return;
    case JSON_ARRAY:
        json_array_foreach(value, i, item)
        {
            char part[CELL_MAX];

            format_cell(item, part);
            used += (size_t)snprintf(text + used, CELL_MAX - used, "%s%s", i > 0 ? "," : "", part);
            if (used >= CELL_MAX)
                return;
        }
        return;
    default:
        return;
    }
}

static int is_number(const json_t *value)
{
    return json_is_number(value);
}

struct column {
    const char *key;
    int width, number;
};

static int find_column(struct column *columns, int n, const char *key)
{
    for (int i = 0; i < n; i++)
        if (strcmp(columns[i].key, key) == 0)
            return i;
    return -1;
}

/* The columns of all rows and their widths. Returns their number or -ENOMEM; *columns is the
 * caller's to free. */
static int measure(const json_t *rows, struct column **columns)
{
    const char *key;
    json_t *row, *value;
    size_t i;
    int n = 0;

    json_array_foreach(rows, i, row)
    {
        json_object_foreach(row, key, value)
        {
            char text[CELL_MAX];
            int c = find_column(*columns, n, key);
            int width;

            if (c < 0) {
                struct column *more = realloc(*columns, (size_t)(n + 1) * sizeof(*more));

                if (more == NULL)
                    return -ENOMEM;
                c = n++;
                *columns = more;
                more[c] = (struct column){.key = key, .width = (int)strlen(key), .number = 1};
            }
            format_cell(value, text);
            width = (int)strlen(text);
            if (width > (*columns)[c].width)
                (*columns)[c].width = width;
            (*columns)[c].number &= is_number(value);
        }
    }
    return n;
}

static void print_cell(FILE *out, const struct column *column, const char *text, int last)
{
    int pad = column->width - (int)strlen(text);

    if (column->number)
        fprintf(out, "%*s%s", pad, "", text);
    else
        fprintf(out, "%s%*s", text, last ? 0 : pad, "");
    fprintf(out, "%*s%s", last ? 0 : COLUMN_GAP, "", last ? "\n" : "");
}

static int print_rows(FILE *out, const json_t *rows)
{
    struct column *columns = NULL;
    int n = measure(rows, &columns);
    json_t *row;
    size_t i;

    for (int c = 0; c < n; c++)
        print_cell(out, &columns[c], columns[c].key, c == n - 1);
    json_array_foreach(rows, i, row)
    {
        for (int c = 0; c < n; c++) {
            const json_t *value = json_object_get(row, columns[c].key);
            char text[CELL_MAX] = "";

            if (value != NULL)
                format_cell(value, text);
            print_cell(out, &columns[c], text, c == n - 1);
        }
    }
    free(columns);
    return n < 0 ? n : (int)json_array_size(rows);
}

static int is_zero(const json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) == 0;
}

/* Both passes over an object: the width of its longest name (out NULL), or its printing. */
static int walk_names(FILE *out, const json_t *object, const char *prefix, int hide_zero, int width,
                      int *rows)
{
    const char *key;
    json_t *value;
    int widest = 0;

    json_object_foreach((json_t *)object, key, value)
    {
        char name[CELL_MAX], text[CELL_MAX];
        int length = snprintf(name, sizeof(name), "%s%s%s", prefix, prefix[0] ? "." : "", key);

        if (json_is_object(value)) {
            length = walk_names(out, value, name, hide_zero, width, rows);
        } else if (hide_zero && is_zero(value)) {
            continue;
        } else if (out != NULL) {
            format_cell(value, text);
            fprintf(out, "%-*s%*s%*s\n", width, name, COLUMN_GAP, "", is_number(value) ? 20 : 0,
                    text);
            (*rows)++;
        }
        if (length > widest)
            widest = length;
    }
    return widest;
}

int table_print(FILE *out, const json_t *value, int hide_zero)
{
    int rows = 0, width;

    if (json_is_array(value))
        return print_rows(out, value);
    if (!json_is_object(value))
        return 0;
    width = walk_names(NULL, value, "", hide_zero, 0, &rows);
    walk_names(out, value, "", hide_zero, width, &rows);
    return rows;
}
