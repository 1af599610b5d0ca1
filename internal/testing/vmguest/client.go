package vmguest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/croft-edge/croft/internal/testing/vmguest/report"
	"github.com/croft-edge/croft/pkg/netns"
)

// pollEvery is how often Wait asks.
const pollEvery = 50 * time.Millisecond

// Client speaks to a guest. It is safe for concurrent use.
type Client struct {
	http *http.Client
	base string
}

// NewClient returns a client that speaks to an IP address from the network namespace of that file; from the caller's
// own when it is empty. Each request has a connection of its own.
func NewClient(namespace, address string) *Client {
	return &Client{
		http: &http.Client{Transport: &http.Transport{DialContext: dialFrom(namespace), DisableKeepAlives: true}},
		base: "http://" + net.JoinHostPort(address, "80"),
	}
}

func dialFrom(namespace string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		dialer := net.Dialer{Timeout: 5 * time.Second}
		if namespace == "" {
			return dialer.DialContext(ctx, network, address)
		}
		// One attempt at a time: the socket must be made on the thread that is in the namespace.
		dialer.FallbackDelay = -1
		err = netns.Do(namespace, func() error {
			conn, err = dialer.DialContext(ctx, network, address)
			return err
		})
		return conn, err
	}
}

// Do sends a request, such as "POST", "/eat?mib=10", and returns the answer's body. An answer other than 200 is an
// error.
func (c *Client) Do(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	out, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("cannot %s %s: the guest answers %d: %s", method, path, answer.StatusCode, bytes.TrimSpace(out))
	}
	return out, nil
}

// Wait asks for the guest's state until it answers or ctx is over.
func (c *Client) Wait(ctx context.Context) (report.Boot, error) {
	for {
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		boot, err := c.Boot(attempt)
		cancel()
		if err == nil {
			return boot, nil
		}
		select {
		case <-ctx.Done():
			return report.Boot{}, fmt.Errorf("the guest doesn't answer: %w", err)
		case <-time.After(pollEvery):
		}
	}
}

// Boot is the guest's state.
func (c *Client) Boot(ctx context.Context) (report.Boot, error) {
	body, err := c.Do(ctx, http.MethodGet, "/boot", nil)
	if err != nil {
		return report.Boot{}, err
	}
	var boot report.Boot
	return boot, json.Unmarshal(body, &boot)
}

// Post sends a request with a body or without.
func (c *Client) Post(ctx context.Context, path string, body []byte) error {
	_, err := c.Do(ctx, http.MethodPost, path, body)
	return err
}

// ReadDisk reads bytes of the data disk.
func (c *Client) ReadDisk(ctx context.Context, offset, size int64) ([]byte, error) {
	return c.Do(ctx, http.MethodGet, fmt.Sprintf("/disk?offset=%d&size=%d", offset, size), nil)
}

// WriteDisk writes bytes of the data disk; they are flushed to the disk when it returns.
func (c *Client) WriteDisk(ctx context.Context, offset int64, b []byte) error {
	_, err := c.Do(ctx, http.MethodPut, fmt.Sprintf("/disk?offset=%d", offset), b)
	return err
}

// DiskSize is the data disk's size now, in bytes.
func (c *Client) DiskSize(ctx context.Context) (int64, error) {
	body, err := c.Do(ctx, http.MethodGet, "/disk/size", nil)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(string(body), 10, 64)
}

// Fetch fetches a page from the guest's network.
func (c *Client) Fetch(ctx context.Context, page string) ([]byte, error) {
	return c.Do(ctx, http.MethodGet, "/fetch?url="+url.QueryEscape(page), nil)
}
