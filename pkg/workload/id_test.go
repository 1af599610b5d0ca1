package workload_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/pkg/workload"
)

func TestSplitIDAsRecorded(t *testing.T) {
	var v struct {
		Split []struct {
			ID          string
			Reservation uint64
			Workload    uint64
			Error       string
		} `json:"split_id"`
	}
	readJSON(t, "v1/ids.json", &v)
	if len(v.Split) != 19 {
		t.Fatalf("there are %d cases", len(v.Split))
	}
	for _, c := range v.Split {
		r := workload.Reservation{ID: c.ID}
		n, m, err := r.SplitID()
		if c.Error != "" {
			wantError(t, c.ID, err, "cannot read ID", "N-M")
			if n != 0 || m != 0 {
				t.Errorf("%q: %d, %d come with an error", c.ID, n, m)
			}
			continue
		}
		if err != nil || n != c.Reservation || m != c.Workload {
			t.Errorf("%q: %d, %d, %v, want %d, %d", c.ID, n, m, err, c.Reservation, c.Workload)
		}
	}
}

func TestIDBothWays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := workload.ID{N: rapid.Uint64().Draw(t, "n"), M: rapid.Uint64().Draw(t, "m")}
		back, err := workload.ParseID(id.String())
		if err != nil || back != id {
			t.Fatalf("%v became %v, %v", id, back, err)
		}
	})
}

func TestIsID(t *testing.T) {
	for text, want := range map[string]bool{
		"1-2": true, "0-0": true, "18446744073709551615-1": true,
		"": false, "1": false, "01-2": false, "1-02": false, "1-2-3": false, "+1-2": false, "1-2.layer": false, "18446744073709551616-1": false,
	} {
		if workload.IsID(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

func TestIDIsFitForAFileName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[0-9./+-]{0,24}`)).Draw(t, "text")
		id, err := workload.ParseID(text)
		if err != nil {
			if len(err.Error()) > 200+len(text) {
				t.Fatalf("the error is %d bytes long", len(err.Error()))
			}
			return
		}
		if name := id.String(); strings.Trim(name, "0123456789-") != "" || strings.Count(name, "-") != 1 {
			t.Fatalf("%q became %q", text, name)
		}
	})
}

func TestLongIDsAreShortenedInErrors(t *testing.T) {
	_, err := workload.ParseID(strings.Repeat("9", 1<<20))
	wantError(t, "long", err, "…")
	if len(err.Error()) > 200 {
		t.Errorf("the error has %d bytes", len(err.Error()))
	}
}

type recordedNetwork struct {
	User string `json:"user_id"`
	Name string `json:"network_name"`
	ID   string `json:"network_id"`
}

func recordedNetworks(t *testing.T) []recordedNetwork {
	var v struct {
		Networks []recordedNetwork `json:"network_ids"`
	}
	readJSON(t, "v1/ids.json", &v)
	if len(v.Networks) != 7 {
		t.Fatalf("there are %d cases", len(v.Networks))
	}
	return v.Networks
}

func TestNetworkIDsAsRecorded(t *testing.T) {
	for _, c := range recordedNetworks(t) {
		if got := workload.NetworkID(c.User, c.Name); string(got) != c.ID {
			t.Errorf("%s %q: ID is %s, want %s", c.User, c.Name, got, c.ID)
		}
	}
}

// Two of the recorded networks share an ID; none share a key.
func TestNetworkKeysAreApart(t *testing.T) {
	keys, ids := map[[32]byte]bool{}, map[string]bool{}
	for _, c := range recordedNetworks(t) {
		keys[workload.NetworkKey(c.User, c.Name)] = true
		ids[c.ID] = true
	}
	if len(keys) != 7 || len(ids) != 6 {
		t.Errorf("%d keys and %d IDs for 7 networks", len(keys), len(ids))
	}
	key := workload.NetworkKey("u", "net1")
	// printf '\0\0\0\1u\0\0\0\4net1' | sha256sum
	if got := hex.EncodeToString(key[:]); got != "4aa79a3d02f221d242f7a1fd664a46565d0aefae30a0dbce470cdb55ed261e53" {
		t.Errorf("key is %s", got)
	}
}
