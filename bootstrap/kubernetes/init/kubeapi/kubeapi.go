// Package kubeapi is a small client of the Kubernetes API, for the few objects that a machine's init reads and writes: the
// real client library would be ten times the size of the whole program, and each of its starts costs seconds of an emulated
// processor.
//
// It owns its connections. A Client is safe for concurrent use.
package kubeapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Limits of a request.
const (
	// mostBody is the longest answer and the longest event, in bytes; mostObject how much is kept of an object, and mostObjects
	// of a collection.
	mostBody    = 16 << 20
	mostObject  = 16 << 10
	mostObjects = 16 << 20
	// pageSize is how many objects a page of a list has: of the longest that the API server stores, 1.5 MiB, a page is no longer than
	// mostBody.
	pageSize = 10
	// Timeout is how long a request may take, but for a watch.
	Timeout = 30 * time.Second
	// watchFor is how long a watch lasts before the objects are listed again.
	watchFor = 5 * time.Minute
	// pingAfter is how long a connection may be silent before it is tried, and how long the answer to that may take.
	pingAfter = 15 * time.Second
)

// Config is how a client reaches the API server.
type Config struct {
	// Server is its URL.
	Server string
	// CA is the certificate authority of the server, in PEM. Without one the server is not authenticated: what it
	// answers must be signed in another way.
	CA []byte
	// Token authenticates the client, if it isn't empty.
	Token string
	// Certificate returns the client's certificate for each new connection; nil for none.
	Certificate func() (*tls.Certificate, error)
}

// Client speaks to an API server.
type Client struct {
	server string
	token  string
	http   *http.Client
}

// New makes a client.
func New(c Config) (*Client, error) {
	options := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CA == nil {
		options.InsecureSkipVerify = true
	} else {
		options.RootCAs = x509.NewCertPool()
		if !options.RootCAs.AppendCertsFromPEM(c.CA) {
			return nil, fmt.Errorf("cannot make a client of %s: the certificate authority must be in PEM", c.Server)
		}
	}
	if c.Certificate != nil {
		options.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c.Certificate() }
	}
	return &Client{server: c.Server, token: c.Token, http: &http.Client{Transport: &http.Transport{
		TLSClientConfig: options, ForceAttemptHTTP2: true, TLSHandshakeTimeout: Timeout, IdleConnTimeout: time.Minute,
		HTTP2:       &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingAfter},
		DialContext: (&net.Dialer{Timeout: Timeout, KeepAlive: 15 * time.Second}).DialContext,
	}}}, nil
}

// Close closes idle connections: the next request shows the certificate that is current then.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Error is an answer other than success.
type Error struct {
	Code    int
	Message string
}

func (e *Error) Error() string {
	return fmt.Sprintf("the API server answers %d: %.300s", e.Code, e.Message)
}

// IsCode reports whether an error is the API server's answer with that code.
func IsCode(err error, code int) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code
}

// Get reads an object into out; nil leaves the answer alone.
func (c *Client) Get(ctx context.Context, path string, out any) error {
	return c.do(ctx, request{method: http.MethodGet, path: path}, out)
}

// Apply makes an object or changes it, so that it has the members of object: a server-side apply.
func (c *Client) Apply(ctx context.Context, path string, object any) error {
	return c.do(ctx, request{http.MethodPatch, path + "?fieldManager=croft&force=true", "application/apply-patch+yaml", object}, nil)
}

// Merge changes members of an object: a JSON merge patch (RFC 7386).
func (c *Client) Merge(ctx context.Context, path string, object any) error {
	return c.do(ctx, request{http.MethodPatch, path, "application/merge-patch+json", object}, nil)
}

// Replace replaces an object, which must be at the resource version that object has.
func (c *Client) Replace(ctx context.Context, path string, object any) error {
	return c.do(ctx, request{http.MethodPut, path, "application/json", object}, nil)
}

type request struct {
	method, path, kind string
	body               any
}

func (c *Client) do(ctx context.Context, r request, out any) error {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	answer, err := c.send(ctx, r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, mostBody+1))
	if err != nil {
		return err
	}
	if len(body) > mostBody {
		return fmt.Errorf("cannot %s %s: the answer has more than %d bytes", r.method, r.path, mostBody)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fmt.Errorf("cannot read the answer to %s %s: %w", r.method, r.path, err)
	}
	return nil
}

// send returns the answer if it is a success; its body must be closed.
func (c *Client) send(ctx context.Context, r request) (*http.Response, error) {
	var body io.Reader
	if r.body != nil {
		raw, err := json.Marshal(r.body)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(raw)
	}
	q, err := http.NewRequestWithContext(ctx, r.method, c.server+r.path, body)
	if err != nil {
		return nil, err
	}
	if c.token != "" {
		q.Header.Set("Authorization", "Bearer "+c.token)
	}
	if r.kind != "" {
		q.Header.Set("Content-Type", r.kind)
	}
	q.Header.Set("Accept", "application/json")
	answer, err := c.http.Do(q)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode/100 == 2 {
		return answer, nil
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	if err != nil {
		return nil, err
	}
	var status struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(text, &status) != nil || status.Message == "" {
		status.Message = string(bytes.TrimSpace(text))
	}
	return nil, &Error{Code: answer.StatusCode, Message: status.Message}
}

// list is a list of objects.
type list struct {
	Metadata struct {
		ResourceVersion string `json:"resourceVersion"`
		Continue        string `json:"continue"`
	} `json:"metadata"`
	Items []json.RawMessage `json:"items"`
}

// event is a line of a watch.
type event struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

// Keep returns what is kept of an object of a collection: whoever may make objects decides how long they are, so it is the little
// that is needed. Nil leaves the object out; so does more than mostObject, and what is beyond mostObjects in all.
type Keep func(object json.RawMessage) json.RawMessage

// collection has what is kept of objects, by namespace and name.
type collection struct {
	keep    Keep
	objects map[string]json.RawMessage
	bytes   int
}

func (c *collection) put(name string, object json.RawMessage) {
	c.remove(name)
	kept := c.keep(object)
	if kept == nil || len(kept) > mostObject || c.bytes+len(name)+len(kept) > mostObjects {
		return
	}
	c.objects[name] = kept
	c.bytes += len(name) + len(kept)
}

func (c *collection) remove(name string) {
	if have, there := c.objects[name]; there {
		c.bytes -= len(name) + len(have)
		delete(c.objects, name)
	}
}

// Watch lists the objects of a collection, as /api/v1/nodes, and calls changed with all of them, at first and again whenever
// one has changed. It returns after some minutes, or with an error; then the caller calls it again. Objects are told apart by
// namespace and name.
func (c *Client) Watch(ctx context.Context, path string, keep Keep, changed func(map[string]json.RawMessage) error) error {
	all, version, err := c.list(ctx, path, keep)
	if err != nil {
		return err
	}
	if err := changed(all.objects); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, watchFor+Timeout)
	defer cancel()
	query := url.Values{"watch": {"1"}, "resourceVersion": {version}, "timeoutSeconds": {strconv.Itoa(int(watchFor.Seconds()))}}
	answer, err := c.send(ctx, request{method: http.MethodGet, path: path + "?" + query.Encode()})
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	return follow(answer.Body, all, changed)
}

// List reads all objects of a collection, by namespace and name.
func (c *Client) List(ctx context.Context, path string, keep Keep) (map[string]json.RawMessage, error) {
	all, _, err := c.list(ctx, path, keep)
	if err != nil {
		return nil, err
	}
	return all.objects, nil
}

// list reads a collection, page by page, and its version.
func (c *Client) list(ctx context.Context, path string, keep Keep) (all *collection, version string, err error) {
	all = &collection{keep: keep, objects: map[string]json.RawMessage{}}
	for next := ""; ; {
		query := url.Values{"limit": {strconv.Itoa(pageSize)}}
		if next != "" {
			query.Set("continue", next)
		}
		var page list
		if err := c.Get(ctx, path+"?"+query.Encode(), &page); err != nil {
			return nil, "", err
		}
		for _, o := range page.Items {
			name, err := nameOf(o)
			if err != nil {
				return nil, "", err
			}
			all.put(name, o)
		}
		if next = page.Metadata.Continue; next == "" {
			return all, page.Metadata.ResourceVersion, nil
		}
	}
}

// follow applies events to a collection until the stream ends.
func follow(stream io.Reader, all *collection, changed func(map[string]json.RawMessage) error) error {
	limited := &io.LimitedReader{R: stream, N: mostBody}
	in := json.NewDecoder(limited)
	for {
		limited.N = mostBody
		var e event
		if err := in.Decode(&e); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("cannot read a change: %w", err)
		}
		if e.Type == "ERROR" {
			return fmt.Errorf("cannot watch any longer: %.300s", e.Object)
		}
		name, err := nameOf(e.Object)
		if err != nil {
			return err
		}
		switch e.Type {
		case "ADDED", "MODIFIED":
			all.put(name, e.Object)
		case "DELETED":
			all.remove(name)
		default:
			continue
		}
		if err := changed(all.objects); err != nil {
			return err
		}
	}
}

func nameOf(object json.RawMessage) (string, error) {
	var o struct {
		Metadata struct {
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(object, &o); err != nil || o.Metadata.Name == "" {
		return "", fmt.Errorf("cannot read an object of a list: it has no metadata.name")
	}
	return o.Metadata.Namespace + "/" + o.Metadata.Name, nil
}
