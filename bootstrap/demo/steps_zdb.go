package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// namespace is the project of the demo's zdb namespace.
const namespace = `project: store
node: %s
duration: 1h
workloads:
  blocks:
    zdb: {size: 1, mode: user, disk_type: SSD, password: {secret: file:zdb.password}}
`

// makeNamespace reserves a namespace that only who has the password enters.
func makeNamespace(ctx context.Context, w *world) error {
	raw := make([]byte, 12)
	if _, err := rand.Read(raw); err != nil {
		return err
	}
	w.db.password, w.db.file = hex.EncodeToString(raw), w.stage.path("store.yaml")
	if err := os.WriteFile(w.stage.path("zdb.password"), []byte(w.db.password), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(w.db.file, fmt.Appendf(nil, namespace, w.node.id), 0o600); err != nil {
		return err
	}
	began := time.Now()
	if _, err := w.user.croft(ctx, "apply", "-f", w.db.file, "--wait", "--timeout", "60s"); err != nil {
		return err
	}
	say("applied in %d ms", time.Since(began).Milliseconds())
	table, err := w.user.croft(ctx, "status", "-f", w.db.file)
	if err != nil {
		return err
	}
	show(table)
	var rows []struct {
		ID   string             `json:"id"`
		Data workload.ZDBResult `json:"data"`
	}
	if err := w.user.decoded(ctx, &rows, "status", "-f", w.db.file); err != nil {
		return err
	}
	if len(rows) != 1 || rows[0].Data.Namespace != rows[0].ID || rows[0].Data.Port == 0 {
		return fmt.Errorf("the answers are %+v", rows)
	}
	w.db.id, w.db.at = rows[0].ID, rows[0].Data
	info, err := w.node.container(ctx, w.db.at.Container)
	if err != nil {
		return err
	}
	w.db.pid = info.PID
	return confined(info)
}

// confined checks that zdb can neither do nor reach anything.
func confined(info node.ContainerInfo) error {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", info.PID))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(status)) {
		if set, mask, _ := strings.Cut(line, ":"); strings.HasPrefix(set, "Cap") && strings.Trim(mask, "\t\n 0") != "" {
			return fmt.Errorf("zdb's process %d has capabilities: %s", info.PID, line)
		}
	}
	var links []net.Interface
	err = netns.Do(netns.OfProcess(info.PID), func() (err error) {
		links, err = net.Interfaces()
		return err
	})
	if err != nil {
		return err
	}
	for _, l := range links {
		// Some kernels put tunnels that are down into each.
		if l.Flags&net.FlagUp != 0 && l.Flags&net.FlagLoopback == 0 {
			return fmt.Errorf("zdb's process %d has a link: %+v", info.PID, l)
		}
	}
	say("on the node: container %s, process %d; it has no capabilities and no network: its port was opened for it", info.ID, info.PID)
	return nil
}

// useNamespace writes and reads from outside, with the password and without.
func useNamespace(ctx context.Context, w *world) (err error) {
	if w.db.outside, err = makeElsewhere(w.stage.path("elsewhere")); err != nil {
		return err
	}
	for _, try := range []struct {
		what     string
		password []string
	}{{"without a password", nil}, {"with another", []string{"guess"}}} {
		conn, err := w.db.enter(ctx, try.password...)
		if err == nil {
			_ = conn.Close()
			return fmt.Errorf("%s the namespace opens", try.what)
		}
		say("%s, at %s, %s: %v", w.db.outside.address, w.db.address(), try.what, err)
	}
	conn, err := w.db.enter(ctx, w.db.password)
	if err != nil {
		return err
	}
	defer conn.Close()
	began := time.Now()
	for i := range values {
		if _, err := conn.Do("SET", fmt.Sprint("key", i), value(i)); err != nil {
			return err
		}
	}
	say("with it: %d values written in %d ms", values, time.Since(began).Milliseconds())
	return w.db.wantValues(ctx)
}

// killZDB kills zdb right after it has answered a write.
func killZDB(ctx context.Context, w *world) error {
	conn, err := w.db.enter(ctx, w.db.password)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Do("SET", "last", "answered"); err != nil {
		return err
	}
	began := time.Now()
	if err := syscall.Kill(int(w.db.pid), syscall.SIGKILL); err != nil {
		return err
	}
	err = until(ctx, 30*time.Second, "zdb is back", func() (bool, error) { return true, w.db.wantValues(ctx) })
	if err != nil {
		return err
	}
	took := time.Since(began)
	again, err := w.db.enter(ctx, w.db.password)
	if err != nil {
		return err
	}
	defer again.Close()
	last, err := redis.String(again.Do("GET", "last"))
	if err != nil {
		return fmt.Errorf("the last write that was answered is lost: %w", err)
	}
	if last != "answered" {
		return fmt.Errorf("the last write that was answered is %q", last)
	}
	info, err := w.node.container(ctx, w.db.at.Container)
	if err != nil {
		return err
	}
	if info.PID == w.db.pid || info.Restarts == 0 {
		return fmt.Errorf("it is %+v", info)
	}
	say("process %d was killed, %d serves after %d ms: all %d values are there, the last one too", w.db.pid, info.PID, took.Milliseconds(), values+1)
	w.db.pid = info.PID
	return nil
}

// sameZDB checks that zdb was neither started again nor has lost anything.
func sameZDB(ctx context.Context, w *world) error {
	if err := w.db.wantValues(ctx); err != nil {
		return err
	}
	info, err := w.node.container(ctx, w.db.at.Container)
	if err == nil && info.PID != w.db.pid {
		err = fmt.Errorf("zdb's process was %d and is %d", w.db.pid, info.PID)
	}
	return err
}

// leaveNamespace deletes the namespace, and with it the last of its zdb.
func leaveNamespace(ctx context.Context, w *world) error {
	if _, err := w.user.croft(ctx, "delete", "-f", w.db.file, "--wait", "--yes"); err != nil {
		return err
	}
	info, err := w.node.container(ctx, w.db.at.Container)
	if err == nil {
		return fmt.Errorf("deleted, and its zdb is still there: %+v", info)
	}
	if node.KindOf(err) != node.NotExist {
		return err
	}
	for _, pattern := range []string{w.stage.path("run", "*", "*", "volumes", "zdb-*"), w.stage.path("state", "zdb", "*.json")} {
		left, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		if len(left) > 0 {
			return fmt.Errorf("deleted, and there is still %v", left)
		}
	}
	conn, err := w.db.enter(ctx, w.db.password)
	if err == nil {
		_ = conn.Close()
		return fmt.Errorf("deleted, and %s answers", w.db.address())
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	say("%s is gone, and with it its container, volume and port", w.db.id)
	return w.db.outside.leave()
}
