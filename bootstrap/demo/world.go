package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/node"
)

// world is everything that the demo has made.
type world struct {
	stage    *stage
	explorer *explorer
	node     *edge
	// user asks for everything; stranger is somebody else.
	user, stranger *account
	kept           volumes
	net            private
	db             store
	cluster        *kubernetes
	objects        objects
	hooks          hooks
	// watch writes down every change of the node's workloads.
	watch *process
}

func newWorld(bin string) (*world, error) {
	bin, err := filepath.Abs(bin)
	if err != nil {
		return nil, err
	}
	// /var/tmp is on a disk: /tmp may be memory, too small for a pool.
	dir, err := os.MkdirTemp("/var/tmp", "croft-demo-")
	if err != nil {
		return nil, err
	}
	// A container's root is nobody on the node, and walks through this folder.
	if err := os.Chmod(dir, 0o711); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "croftd.yaml"), nil, 0o600); err != nil {
		return nil, err
	}
	say("everything happens in %s", dir)
	s := &stage{bin: bin, dir: dir}
	e := &explorer{stage: s}
	return &world{
		stage: s, explorer: e, node: &edge{stage: s}, kept: volumes{},
		user: &account{stage: s, explorer: e, file: "user.seed"}, stranger: &account{stage: s, explorer: e, file: "stranger.seed"},
	}, nil
}

// close takes everything down, whatever state it is in.
func (w *world) close() error {
	w.watch.stop()
	w.objects.stop()
	defer w.hooks.remove()
	w.node.process.stop()
	w.explorer.process.stop()
	if w.explorer.liar != nil {
		w.explorer.liar.close()
	}
	if err := w.db.outside.leave(); err != nil {
		return fmt.Errorf("cannot take the other machine away, %s stays: %w", w.stage.dir, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if _, err := os.Stat(w.stage.path("state")); err == nil {
		if left, err := w.stage.leftovers(); err != nil || len(left) > 0 {
			if err := w.stage.takeBack(ctx, "--force"); err != nil {
				return fmt.Errorf("cannot take the machine back, %s stays: %w", w.stage.dir, err)
			}
		}
	}
	left, err := w.stage.leftovers()
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("left behind, %s stays: %s", w.stage.dir, strings.Join(left, "; "))
	}
	return os.RemoveAll(w.stage.dir)
}

// private is the demo's network while it is there.
type private struct {
	file    string
	id      string
	info    node.NetworkInfo
	web, me member
	// pid is the process of the container that serves.
	pid uint64
}

// member is a container with a place in the network. Its namespace is kept by
// the node, so it can be looked out of while no agent runs.
type member struct {
	id, address string
	namespace   string
}

// site is where the container serves.
func (p *private) site() string { return "http://" + p.web.id + ".croft.internal/" }

// dialInside connects from the second member, with the gateway as its resolver.
func (p *private) dialInside(ctx context.Context, address string, limit time.Duration) (conn net.Conn, err error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	inside := func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		err = netns.Do(p.me.namespace, func() error {
			conn, err = (&net.Dialer{FallbackDelay: -1}).DialContext(ctx, network, address)
			return err
		})
		return conn, err
	}
	if net.ParseIP(host) == nil {
		names := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return inside(ctx, network, net.JoinHostPort(p.info.Gateway, "53"))
		}}
		found, err := names.LookupIP(ctx, "ip4", host+".")
		if err != nil {
			return nil, err
		}
		host = found[0].String()
	}
	return inside(ctx, "tcp", net.JoinHostPort(host, port))
}

func (p *private) get(ctx context.Context, url string) (string, error) {
	client := http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
		return p.dialInside(ctx, address, 2*time.Second)
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
