package engine

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/lifecycle"
	"github.com/croft-edge/croft/provision/store"
)

// containerOn makes a user's container that mounts a volume.
func containerOn(t *testing.T, id, user, volume string) store.Record {
	t.Helper()
	rec := recordOf(id, workload.TypeContainer, lifecycle.Intent)
	rec.Reservation.User = user
	rec.Reservation.Data = json.RawMessage(fmt.Sprintf(`{"flist":"http://x/y","mounts":[{"volume_id":%q,"mountpoint":"/data"}],
		"network":{"network_id":"net","ips":["10.1.0.2"]},"capacity":{"cpu":1,"memory":64}}`, volume))
	if _, err := workload.DataOf[workload.Container](rec.Reservation); err != nil {
		t.Fatal(err)
	}
	return rec
}

// A container in flight locks its user's volume. Naming another user's volume
// locks nothing: keys cost nothing, and effects may take long.
func TestVolumesDelayNoOtherUsers(t *testing.T) {
	for user, want := range map[string][]string{"u": {"2-1"}, "stranger": {"1-1", "2-1"}} {
		f := newFlights(nil)
		var started []string
		f.start = func(one *flight) { started = append(started, one.rec.ID()) }
		volume := recordOf("1-1", workload.TypeVolume, lifecycle.Leaving)
		for _, one := range []*flight{
			{kind: lifecycle.DoProvision, rec: containerOn(t, "2-1", user, "1-1")}, {kind: lifecycle.DoDecommission, rec: volume},
		} {
			if err := f.begin(one); err != nil {
				t.Fatal(err)
			}
		}
		f.pump()
		if slices.Sort(started); !slices.Equal(started, want) {
			t.Errorf("beside a container of %q are in flight %v, want %v", user, started, want)
		}
	}
}
