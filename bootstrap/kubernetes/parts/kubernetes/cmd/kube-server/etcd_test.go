package main

import (
	"bytes"
	"context"
	"path/filepath"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/croft-edge/croft/bootstrap/kubernetes/parts/kubernetes/internal/config"
)

// TestRelieve fills etcd with the history of one object. Until it is relieved no write is taken, also not after a restart; then all
// are, and the object is what it was. One that is full of objects stays full until some are deleted.
func TestRelieve(t *testing.T) {
	dir := t.TempDir()
	c := config.Etcd{Dir: filepath.Join(dir, "etcd"), SocketDir: filepath.Join(dir, "socket")}
	open := func() *embed.Etcd {
		if err := prepareFolders(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		e := etcdConfig(c)
		e.QuotaBackendBytes, e.LogLevel = 4<<20, "fatal"
		server, err := embed.StartEtcd(e)
		if err != nil {
			t.Fatal(err)
		}
		<-server.Server.ReadyNotify()
		return server
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	put := func(e *embed.Etcd, key string, fill byte) error {
		_, err := e.Server.Put(ctx, &pb.PutRequest{Key: []byte(key), Value: bytes.Repeat([]byte{fill}, 64<<10)})
		return err
	}
	full := func(e *embed.Etcd, key func(int) string) (last byte) {
		for i := range 1000 {
			last = byte(i) // the write that goes over the quota is taken, and answered with an error
			if put(e, key(i), last) != nil {
				for len(e.Server.Alarms()) == 0 {
					<-time.After(10 * time.Millisecond)
				}
				return last
			}
		}
		t.Fatal("etcd doesn't become full")
		return 0
	}
	e := open()
	if err := relieve(ctx, e.Server); err != nil {
		t.Errorf("one that has room: %v", err)
	}
	last := full(e, func(int) string { return "one" })
	e.Close()
	e = open()
	if err := put(e, "two", 1); err == nil {
		t.Error("after a restart a full etcd takes writes")
	}
	if err := relieve(ctx, e.Server); err != nil {
		t.Fatal(err)
	}
	if err := put(e, "two", 1); err != nil {
		t.Errorf("once it is relieved: %v", err)
	}
	got, err := e.Server.Range(ctx, &pb.RangeRequest{Key: []byte("one")})
	if err != nil || len(got.Kvs) != 1 || got.Kvs[0].Value[0] != last {
		t.Errorf("the object isn't %d: %v", last, err)
	}
	full(e, func(i int) string { return string(rune('a'+i%26)) + string(rune('a'+i/26)) })
	if err := relieve(ctx, e.Server); err == nil || put(e, "two", 1) == nil {
		t.Errorf("one that is full of objects: %v", err)
	}
	if _, err := e.Server.DeleteRange(ctx, &pb.DeleteRangeRequest{Key: []byte("a"), RangeEnd: []byte("{")}); err != nil {
		t.Fatal(err)
	}
	if err := relieve(ctx, e.Server); err != nil || put(e, "two", 1) != nil {
		t.Errorf("once objects are deleted: %v", err)
	}
	e.Close()
}
