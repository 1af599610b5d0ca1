package store_test

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/croft-edge/croft/internal/testing/recordstest"
	"github.com/croft-edge/croft/pkg/atomicfile"
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

// A write from a copy that predates a request doesn't make the receipts from before it count.
func TestReceiptFromBeforeARequestAfterAnOldCopy(t *testing.T) {
	s := open(t, store.Config{Root: t.TempDir()})
	sent := finish(t, s, answered(record(volume("1-1", time.Now(), time.Hour), store.Intent), store.Deployed, workload.StateOK))
	if err := s.Resend("1-1"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write(sent); err != nil {
		t.Fatal(err)
	}
	if err := s.Acknowledge(store.ReceiptFor(sent)); err != nil {
		t.Fatal(err)
	}
	if owed, err := s.Undelivered(); err != nil || ids(owed) != "1-1" {
		t.Fatalf("owed: %s, %v, want 1-1", ids(owed), err)
	}
}

func TestAnIDTwiceInARequest(t *testing.T) {
	root := t.TempDir()
	s := open(t, store.Config{Root: root})
	for _, id := range []string{"1-1", "2-1"} {
		sent := finish(t, s, answered(record(volume(id, time.Now(), time.Hour), store.Intent), store.Deployed, workload.StateOK))
		if err := s.Acknowledge(store.ReceiptFor(sent)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Resend("1-1", "1-1", "2-1"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if owed, err := s.Undelivered(); err != nil || ids(owed) != "1-1 2-1" {
			t.Errorf("owed: %q, %v", ids(owed), err)
		}
		_ = s.Close()
		s = open(t, store.Config{Root: root})
	}
}

// A failed write may be on the disk all the same. A request is durable after it too.
func TestARequestAfterAFailedAcknowledgement(t *testing.T) {
	root := t.TempDir()
	fails := false
	s, err := store.Open(store.Config{Root: root, Hook: func(p atomicfile.Point) error {
		if fails && p.Op == atomicfile.SyncDir && p.After {
			return unix.EIO
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	sent := finish(t, s, answered(record(volume("1-1", time.Now(), time.Hour), store.Intent), store.Deployed, workload.StateOK))
	fails = true
	if err := s.Acknowledge(store.ReceiptFor(sent)); err == nil {
		t.Fatal("the disk didn't fail")
	}
	fails = false
	if err := s.Resend("1-1"); err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	s = open(t, store.Config{Root: root})
	if owed, err := s.Undelivered(); err != nil || ids(owed) != "1-1" {
		t.Errorf("after a restart owed: %q, %v", ids(owed), err)
	}
}
