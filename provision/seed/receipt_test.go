package seed

import (
	"crypto/ed25519"
	"encoding/json"
	"os"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/internal/testing/recordstest"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/store"
)

func TestReceipts(t *testing.T) {
	recordstest.Receipts(t, func(rt *rapid.T) store.Records {
		root, err := os.MkdirTemp(t.TempDir(), "store")
		if err != nil {
			rt.Fatal(err)
		}
		cache, err := store.Open(store.Config{Root: root})
		if err != nil {
			rt.Fatal(err)
		}
		rt.Cleanup(func() { cache.Close() })
		records, err := newCacheRecords(cache)
		if err != nil {
			rt.Fatal(err)
		}
		return records
	})
}

// Another reservation that gets a Dismissed one's ID doesn't get its answer. A Dismissed record
// without an answer to deliver isn't kept.
func TestDismissedRecords(t *testing.T) {
	cache, err := store.Open(store.Config{Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer cache.Close()
	c, err := newCacheRecords(cache)
	if err != nil {
		t.Fatal(err)
	}
	write := func(d time.Duration, phase store.Phase, result *workload.Result) store.Record {
		t.Helper()
		r := &workload.Reservation{
			ID: "1-1", NodeID: "node", Type: workload.TypeVolume, Data: json.RawMessage(`{}`), Created: time.Unix(1_700_000_000, 0).UTC(), Duration: d,
		}
		if err := r.Sign(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))); err != nil {
			t.Fatal(err)
		}
		h, err := r.Hash()
		if err != nil {
			t.Fatal(err)
		}
		written, err := c.Write(store.Record{Reservation: r, Hash: h, Phase: phase, Result: result})
		if err != nil {
			t.Fatal(err)
		}
		return written[0]
	}
	write(3*time.Hour, store.Dismissed, nil)
	if n := c.Count(store.Dismissed); n != 0 {
		t.Errorf("%d Dismissed records without an answer are kept", n)
	}
	write(time.Hour, store.Dismissed, &workload.Result{State: workload.StateError, Error: "refused"})
	if n := c.Count(store.Dismissed); n != 1 {
		t.Errorf("%d Dismissed records with an answer, want 1", n)
	}
	if other := write(2*time.Hour, store.Intent, nil); other.Result != nil {
		t.Errorf("another reservation has the answer %+v", other.Result)
	}
}
