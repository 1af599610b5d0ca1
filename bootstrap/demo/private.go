package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/node"
)

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
