package store_test

import (
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
		s, err := store.Open(store.Config{Root: root})
		if err != nil {
			rt.Fatal(err)
		}
		rt.Cleanup(func() { s.Close() })
		return s
	})
}

// A receipt that is under way while a restored explorer asks again doesn't end the sending.
func TestReceiptFromBeforeARequest(t *testing.T) {
	s := open(t, store.Config{Root: t.TempDir()})
	sent := finish(t, s, answered(record(volume("1-1", time.Now(), time.Hour), store.Intent), store.Deployed, workload.StateOK))
	if err := s.Resend("1-1"); err != nil {
		t.Fatal(err)
	}
	if err := s.Acknowledge(store.ReceiptFor(sent)); err != nil {
		t.Fatal(err)
	}
	owed, err := s.Undelivered()
	if err != nil || ids(owed) != "1-1" {
		t.Fatalf("owed: %s, %v, want 1-1", ids(owed), err)
	}
	if err := s.Acknowledge(store.ReceiptFor(owed[0])); err != nil {
		t.Fatal(err)
	}
	if owed, err := s.Undelivered(); err != nil || len(owed) != 0 {
		t.Fatalf("owed after the second receipt: %s, %v, want none", ids(owed), err)
	}
}
