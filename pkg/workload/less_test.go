package workload_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/croft-edge/croft/pkg/workload"
)

// Nodes of the seed's time don't know these members, and version 1 doesn't sign them.
func TestWhatAContainerDoesWithout(t *testing.T) {
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
