package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/croft-edge/croft/pkg/workload"
)

// makeNetwork reserves a private network with croft's own commands.
func makeNetwork(ctx context.Context, w *world) error {
	w.net.file = w.stage.path("network.yaml")
	for _, args := range [][]string{
		{"network", "create", "home", "-f", w.net.file},
		{"network", "add-node", "home", w.node.id, "--endpoint", "none", "-f", w.net.file},
		{"apply", "-f", w.net.file, "--wait", "--timeout", "30s"},
	} {
		if _, err := w.user.croft(ctx, args...); err != nil {
			return err
		}
	}
	table, err := w.user.croft(ctx, "status", "-f", w.net.file)
	if err != nil {
		return err
	}
	show(table)
	var who struct {
		ID string `json:"id"`
	}
	if err := w.user.decoded(ctx, &who, "id", "show"); err != nil {
		return err
	}
	key := workload.NetworkKey(who.ID, "home")
	w.net.id = hex.EncodeToString(key[:])
	w.net.info, err = w.node.network(ctx, w.net.id)
	if err != nil {
		return err
	}
	say("on the node: a namespace of its own, with %s, gateway %s and %s, tunnels by the %s", w.net.info.Subnet, w.net.info.Gateway, w.net.info.Gateway6, w.net.info.Backend)
	return nil
}

// talkOnNetwork lets the containers find each other.
func talkOnNetwork(ctx context.Context, w *world) error {
	for _, host := range []string{w.net.web.id + ".croft.internal", w.net.web.address} {
		text, err := w.user.croft(ctx, "exec", w.net.me.id, "--", "/hello", "get", "http://"+host+"/")
		if err != nil {
			return err
		}
		say("%s asks http://%s/: %q", w.net.me.address, host, text)
	}
	return keptApart(ctx, w)
}

// keptApart shows that a member doesn't reach the node, though it is its router.
func keptApart(ctx context.Context, w *world) error {
	open, err := net.Listen("tcp4", ":0")
	if err != nil {
		return err
	}
	defer open.Close()
	_, port, err := net.SplitHostPort(open.Addr().String())
	if err != nil {
		return err
	}
	routes, err := exec.CommandContext(ctx, "nsenter", "--net="+w.net.info.Namespace, "ip", "-4", "route", "show", "default").Output()
	fields := strings.Fields(string(routes))
	if err != nil || len(fields) < 3 {
		return fmt.Errorf("the network has no way out: %w: %s", err, routes)
	}
	door := net.JoinHostPort(fields[2], port)
	conn, err := net.DialTimeout("tcp", door, time.Second)
	if err != nil {
		return fmt.Errorf("nobody listens at %s: %w", door, err)
	}
	_ = conn.Close()
	if conn, err := w.net.dialInside(ctx, door, time.Second); err == nil {
		_ = conn.Close()
		return fmt.Errorf("a member reaches the node at %s", door)
	}
	say("%s, on the node, is open for the node and not for its members", door)
	return nil
}

// breakNetwork removes the network's bridge behind the node's back.
func breakNetwork(ctx context.Context, w *world) error {
	began := time.Now()
	out, err := exec.CommandContext(ctx, "nsenter", "--net="+w.net.info.Namespace, "ip", "link", "del", "br0").CombinedOutput()
	if err != nil {
		return fmt.Errorf("cannot remove the bridge: %w: %s", err, out)
	}
	if err := until(ctx, 30*time.Second, "the node sees it", func() (bool, error) { return w.node.saysRestored(ctx, w.net.info.Label) }); err != nil {
		return err
	}
	if _, err := w.net.get(ctx, w.net.site()); err != nil {
		return fmt.Errorf("the node says that the network is back: %w", err)
	}
	say("back after %.1f s: members talk again", time.Since(began).Seconds())
	return nil
}

// leaveNetwork ends the containers and their network, in the order that they need.
func leaveNetwork(ctx context.Context, w *world) error {
	if _, err := w.user.croft(ctx, "delete", "-f", w.net.file, "--wait", "--yes"); err != nil {
		return err
	}
	if info, err := w.node.network(ctx, w.net.id); err == nil {
		return fmt.Errorf("deleted, and still there: %+v", info)
	}
	if _, err := os.Lstat(w.net.web.namespace); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("deleted, and %s is still there", w.net.web.namespace)
	}
	layers, err := filepath.Glob(w.stage.path("run", "*", "*", "volumes", "*.layer"))
	if err != nil || len(layers) > 0 {
		return fmt.Errorf("what the containers wrote is still there: %v, %w", layers, err)
	}
	say("their processes, namespaces, mounts, links and rules are gone; the volume stays")
	return nil
}
