package workload_test

import (
	"slices"
	"testing"

	"github.com/croft-edge/croft/pkg/workload"
)

func TestSplitEntrypoint(t *testing.T) {
	for in, want := range map[string][]string{
		"":                              nil,
		" \t\n ":                        nil,
		"/serve":                        {"/serve"},
		"  /serve   --port  80 ":        {"/serve", "--port", "80"},
		"/bin/sh -c 'echo \"a  b\" $X'": {"/bin/sh", "-c", "echo \"a  b\" $X"},
		`a "b c" d\ e "f\"g" 'h\i'`:     {"a", "b c", "d e", `f"g`, `h\i`},
		`a '' ""`:                       {"a", "", ""},
		`a'b'"c"`:                       {"abc"},
		"a\nb":                          {"a", "b"},
		"'a\nb'":                        {"a\nb"},
		"a; b > c & $(d) *":             {"a;", "b", ">", "c", "&", "$(d)", "*"},
		"é 'ü ö'":                       {"é", "ü ö"},
	} {
		if got, err := workload.SplitEntrypoint(in); err != nil || !slices.Equal(got, want) || (want == nil) != (got == nil) {
			t.Errorf("%q: %q, %v, want %q", in, got, err, want)
		}
	}
	for in, want := range map[string]string{
		"a 'b": "quotes", `a "b`: "quotes", `a \`: "backslash", `"a\"`: "quotes", `''`: "first word", `"" b`: "first word",
	} {
		_, err := workload.SplitEntrypoint(in)
		wantField(t, in, err, "data.entrypoint", "cannot accept data.entrypoint", want)
	}
}
