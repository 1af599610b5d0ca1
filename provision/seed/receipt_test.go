package seed

import (
	"os"
	"testing"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/internal/testing/recordstest"
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
