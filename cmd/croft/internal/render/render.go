// Package render writes answers for people (a table) and for programs (JSON,
// YAML). A program's form is the same value as the table shows, and more.
package render

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/yamljson"
)

// Format is a form of output.
type Format string

// The forms.
const (
	Table Format = "table"
	JSON  Format = "json"
	YAML  Format = "yaml"
)

// ParseFormat reads a format's name.
func ParseFormat(s string) (Format, error) {
	switch f := Format(s); f {
	case Table, JSON, YAML:
		return f, nil
	}
	return "", errors.Errorf("cannot write output as %q: it must be table, json or yaml", s)
}

// Rows is a table: the head, then the rows.
type Rows struct {
	Head []string
	Rows [][]string
}

// Write writes value as JSON or YAML, or rows as a table.
func Write(w io.Writer, f Format, value any, rows Rows) error {
	switch f {
	case JSON:
		return writeJSON(w, value)
	case YAML:
		return writeYAML(w, value)
	}
	return writeTable(w, rows)
}

func writeJSON(w io.Writer, value any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return errors.Wrap(e.Encode(value), "cannot write JSON")
}

// writeYAML goes through JSON, so that both have the same members in the same order.
func writeYAML(w io.Writer, value any) error {
	var asJSON bytes.Buffer
	if err := writeJSON(&asJSON, value); err != nil {
		return err
	}
	out, err := yamljson.ToYAML(asJSON.Bytes())
	if err != nil {
		return err
	}
	_, err = w.Write(out)
	return errors.Wrap(err, "cannot write YAML")
}

func writeTable(w io.Writer, rows Rows) error {
	var out bytes.Buffer
	t := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{rows.Head}, rows.Rows...) {
		cells := make([]string, len(row))
		for i, c := range row {
			cells[i] = Line(c)
		}
		if _, err := io.WriteString(t, strings.Join(cells, "\t")+"\n"); err != nil {
			return errors.Wrap(err, "cannot write table")
		}
	}
	if err := t.Flush(); err != nil {
		return errors.Wrap(err, "cannot write table")
	}
	var lines strings.Builder
	for line := range strings.Lines(out.String()) {
		lines.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	_, err := io.WriteString(w, lines.String())
	return errors.Wrap(err, "cannot write table")
}

// Line makes text from elsewhere one line without control characters, so that
// an error made by a node can't move a terminal's cursor.
func Line(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || !unicode.IsPrint(r) && r != ' ' {
			return ' '
		}
		return r
	}, s)
}
