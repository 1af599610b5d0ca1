package render

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/pkg/errors"
)

// columnWidth is the width of a column in a table that grows line by line, so
// that lines fit each other though they aren't known together.
const columnWidth = 10

// Columns writes the head, where there is one, and a line of numbers.
func Columns(w io.Writer, head []string, values []int64) error {
	var out strings.Builder
	for i, h := range head {
		fmt.Fprintf(&out, "%-*s", width(i, len(head)), h)
	}
	if len(head) > 0 {
		out.WriteByte('\n')
	}
	for i, v := range values {
		fmt.Fprintf(&out, "%-*d", width(i, len(values)), v)
	}
	_, err := fmt.Fprintln(w, out.String())
	return errors.Wrap(err, "cannot write table")
}

// width is 0 for the last column: nothing follows it.
func width(i, n int) int {
	if i == n-1 {
		return 0
	}
	return columnWidth
}

// JSONLine writes value as one line of JSON.
func JSONLine(w io.Writer, value any) error {
	return errors.Wrap(json.NewEncoder(w).Encode(value), "cannot write JSON")
}
