package fielderror_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/croft-edge/croft/pkg/fielderror"
)

func TestErrorTexts(t *testing.T) {
	long := strings.Repeat("x", 200)
	for _, c := range []struct {
		field string
		value any
		want  string
	}{
		{"node_id", "abc", `cannot accept node_id: it is "abc", must be an ID`},
		{"nonce", fielderror.Missing, `cannot accept nonce: it is missing, must be an ID`},
		{"n", json.Number("1e99"), `cannot accept n: it is 1e99, must be an ID`},
		{"n", nil, `cannot accept n: it is null, must be an ID`},
		{"n", []any{1, 2}, `cannot accept n: it is an array of 2, must be an ID`},
		{"n", map[string]any{"a": 1}, `cannot accept n: it is an object of 1 members, must be an ID`},
		{"n", 5, `cannot accept n: it is 5, must be an ID`},
		{"n", long, `cannot accept n: it is "` + long[:80] + `…", must be an ID`},
		{long, "a", `cannot accept ` + long[:80] + `…: it is "a", must be an ID`},
		{"data.password", "s3cret", `cannot accept data.password: it is a text of 6 bytes, must be an ID`},
		{"data.password", json.Number("12345"), `cannot accept data.password: it is a number, must be an ID`},
		{"data.env.TOKEN", "s3cret", `cannot accept data.env.TOKEN: it is a text of 6 bytes, must be an ID`},
	} {
		if got := fielderror.New(c.field, c.value, "an ID").Error(); got != c.want {
			t.Errorf("%s: got %s, want %s", c.field, got, c.want)
		}
	}
	if got := fielderror.New("n", 5, "at most %d", 3).Error(); got != "cannot accept n: it is 5, must be at most 3" {
		t.Errorf("got %s", got)
	}
}

func TestPaths(t *testing.T) {
	if got := fielderror.Join(fielderror.Index(fielderror.Join("", "data"), 2), "ip"); got != "data[2].ip" {
		t.Errorf("got %s", got)
	}
}
