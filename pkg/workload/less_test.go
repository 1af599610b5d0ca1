package workload_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/croft-edge/croft/pkg/workload"
)

// Nodes of the seed's time don't know these members, and version 1 doesn't sign them.
func TestContainerRestrictions(t *testing.T) {
	for _, name := range []string{"read_only", "no_capabilities", "non_root"} {
		with := func(value string) func(data json.RawMessage) json.RawMessage {
			return func(data json.RawMessage) json.RawMessage {
				return json.RawMessage(strings.Replace(string(data), "{", `{"`+name+`":`+value+",", 1))
			}
		}
		r := v2Of(t, "container")
		r.Data = with("true")(r.Data)
		if err := workload.Validate(r); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		data, err := workload.DataOf[workload.Container](r)
		if err != nil || !slices.Equal(data.Without(), []string{name}) {
			t.Errorf("%s: it does without %v, %v", name, data.Without(), err)
		}
		r.Data = with(`"yes"`)(v2Of(t, "container").Data)
		wantField(t, name, workload.Validate(r), "data."+name, "true or false")
		r = decode(t, readRecorded(t, "container").Post.Request)
		r.Data = with("true")(r.Data)
		wantField(t, name, workload.Validate(r), "data."+name, "absent in version 1")
	}
}

// Another container replaces one by its name; version 1 signs it like the rest,
// and nodes of the seed's time don't know it.
func TestNameOfAContainer(t *testing.T) {
	named := func(r *workload.Reservation, name string) *workload.Reservation {
		r.Data = json.RawMessage(strings.Replace(string(r.Data), "{", `{"name":`+name+",", 1))
		return r
	}
	for _, name := range []string{`"web"`, `"web-0a.b_C"`, `"` + strings.Repeat("x", 64) + `"`} {
		r := named(v2Of(t, "container"), name)
		if err := workload.Validate(r); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if data, err := workload.DataOf[workload.Container](r); err != nil || `"`+data.Name+`"` != name {
			t.Errorf("%s is %q, %v", name, data.Name, err)
		}
	}
	for _, name := range []string{`""`, `"-a"`, `"a b"`, `"a/b"`, `1`, `"` + strings.Repeat("x", 65) + `"`} {
		wantField(t, name, workload.Validate(named(v2Of(t, "container"), name)), "data.name", "a name of 1 to 64")
	}
	wantField(t, "version 1", workload.Validate(named(decode(t, readRecorded(t, "container").Post.Request), `"web"`)), "data.name", "absent in version 1")
	if workload.ContainerKey("user", "net") == workload.NetworkKey("user", "net") || workload.ContainerKey("ab", "c") == workload.ContainerKey("a", "bc") {
		t.Error("two names have one key")
	}
}
