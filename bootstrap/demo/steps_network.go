package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/croft-edge/croft/modules/network/netns"
	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/stubs"
	"github.com/croft-edge/croft/pkg/workload"
)

// private is the demo's network while it is there.
type private struct {
	file    string
	id      string
	info    node.NetworkInfo
	web, me member
}

// member is a container with a place in the network. Its namespace is kept by
// the node, so it can be looked out of while no agent runs.
type member struct {
	id, address string
	namespace   string
}

// makeNetwork reserves a private network with croft's own commands.
func makeNetwork(ctx context.Context, w *world) error {
	w.net.file = w.path("network.yaml")
	for _, args := range [][]string{
		{"network", "create", "home", "-f", w.net.file},
		{"network", "add-node", "home", w.nodeID, "--endpoint", "none", "-f", w.net.file},
		{"apply", "-f", w.net.file, "--wait", "--timeout", "30s"},
	} {
		if _, err := w.croft(ctx, args...); err != nil {
			return err
		}
	}
	table, err := w.croft(ctx, "status", "-f", w.net.file)
	if err != nil {
		return err
	}
	show(table)
	var who struct {
		ID string `json:"id"`
	}
	if err := w.croftJSON(ctx, &who, "id", "show"); err != nil {
		return err
	}
	key := workload.NetworkKey(who.ID, "home")
	w.net.id = hex.EncodeToString(key[:])
	w.net.info, err = w.networkInfo(ctx)
	if err != nil {
		return err
	}
	say("on the node: a namespace of its own, with %s, gateway %s and %s, tunnels by the %s", w.net.info.Subnet, w.net.info.Gateway, w.net.info.Gateway6, w.net.info.Backend)
	return nil
}

// networks calls the node's network module over its bus.
func (w *world) networks(ctx context.Context, call func(n *stubs.NetworksStub) error) error {
	client, err := bus.Dial(ctx, "unix://"+w.path("run", "bus.sock"), bus.Options{})
	if err != nil {
		return err
	}
	defer client.Close()
	return call(stubs.NewNetworksStub(client))
}

func (w *world) networkInfo(ctx context.Context) (info node.NetworkInfo, err error) {
	err = w.networks(ctx, func(n *stubs.NetworksStub) error {
		list, err := n.List(ctx)
		for _, one := range list {
			if one.ID == w.net.id {
				info = one
				return nil
			}
		}
		return errors.Join(err, errors.New("the node doesn't have the network"))
	})
	return info, err
}

// talkOnNetwork lets the containers find each other.
func talkOnNetwork(ctx context.Context, w *world) error {
	for _, host := range []string{w.net.web.id + ".croft.internal", w.net.web.address} {
		text, err := w.croft(ctx, "exec", w.net.me.id, "--", "/hello", "get", "http://"+host+"/")
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
	if conn, err := w.dialInside(ctx, door, time.Second); err == nil {
		_ = conn.Close()
		return fmt.Errorf("a member reaches the node at %s", door)
	}
	say("%s, on the node, is open for the node and not for its members", door)
	return nil
}

// dialInside connects from the second member, with the gateway as its resolver.
func (w *world) dialInside(ctx context.Context, address string, limit time.Duration) (conn net.Conn, err error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	inside := func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		err = netns.Do(w.net.me.namespace, func() error {
			conn, err = (&net.Dialer{FallbackDelay: -1}).DialContext(ctx, network, address)
			return err
		})
		return conn, err
	}
	if net.ParseIP(host) == nil {
		names := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return inside(ctx, network, net.JoinHostPort(w.net.info.Gateway, "53"))
		}}
		found, err := names.LookupIP(ctx, "ip4", host+".")
		if err != nil {
			return nil, err
		}
		host = found[0].String()
	}
	return inside(ctx, "tcp", net.JoinHostPort(host, port))
}

func (w *world) get(ctx context.Context, url string) (string, error) {
	client := http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
		return w.dialInside(ctx, address, 2*time.Second)
	}}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	answer, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return string(text), err
}

// breakNetwork removes the network's bridge behind the node's back.
func breakNetwork(ctx context.Context, w *world) error {
	began := time.Now()
	out, err := exec.CommandContext(ctx, "nsenter", "--net="+w.net.info.Namespace, "ip", "link", "del", "br0").CombinedOutput()
	if err != nil {
		return fmt.Errorf("cannot remove the bridge: %w: %s", err, out)
	}
	if err := until(ctx, 30*time.Second, "the node sees it", func() (bool, error) { return w.saysRestored(ctx) }); err != nil {
		return err
	}
	if _, err := w.get(ctx, w.site()); err != nil {
		return fmt.Errorf("the node says that the network is back: %w", err)
	}
	say("back after %.1f s: members talk again", time.Since(began).Seconds())
	return nil
}

// saysRestored shows what croftd status says of the damage.
func (w *world) saysRestored(ctx context.Context) (bool, error) {
	out, err := w.output(ctx, "croftd", "status", "-o", "json", "--run-dir", w.path("run"), "--state-dir", w.path("state"))
	if err != nil {
		return false, err
	}
	var status struct {
		Workloads []struct {
			ID       string `json:"id"`
			Restored int    `json:"restored"`
			Drift    *struct {
				What string `json:"what"`
			} `json:"drift"`
		} `json:"workloads"`
	}
	if err := json.Unmarshal(out, &status); err != nil {
		return false, err
	}
	for _, one := range status.Workloads {
		if one.Restored > 0 && one.Drift != nil {
			say("croftd status: %s was restored %d time: %s", one.ID, one.Restored, one.Drift.What)
			return true, nil
		}
	}
	return false, errors.New("no workload was restored")
}

// leaveNetwork ends the containers and their network, in the order that they need.
func leaveNetwork(ctx context.Context, w *world) error {
	if _, err := w.croft(ctx, "delete", "-f", w.net.file, "--wait", "--yes"); err != nil {
		return err
	}
	if info, err := w.networkInfo(ctx); err == nil {
		return fmt.Errorf("deleted, and still there: %+v", info)
	}
	if _, err := os.Lstat(w.net.web.namespace); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("deleted, and %s is still there", w.net.web.namespace)
	}
	layers, err := filepath.Glob(w.path("run", "*", "*", "volumes", "*.layer"))
	if err != nil || len(layers) > 0 {
		return fmt.Errorf("what the containers wrote is still there: %v, %w", layers, err)
	}
	say("their processes, namespaces, mounts, links and rules are gone; the volume stays")
	return nil
}
