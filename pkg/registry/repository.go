package registry

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/log"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/sirupsen/logrus"

	"github.com/croft-edge/croft/pkg/dial"
	"github.com/croft-edge/croft/pkg/fetch"
)

const (
	// longestToken bounds the answer of a token server.
	longestToken = 1 << 20
	// longestResolve bounds Resolve.
	longestResolve = 2 * time.Minute
)

// Client opens repositories. New makes one; it is safe for concurrent use.
type Client struct{ cfg fetch.Config }

// New returns the client of a valid c.
func New(c fetch.Config) *Client { return &Client{c} }

// Repository is where a reference leads. It is for one goroutine.
type Repository struct {
	ref      Reference
	client   *http.Client
	resolver remotes.Resolver
	quiet    *log.Entry
	fetcher  remotes.Fetcher
}

// Open opens the repository of a reference; nothing is asked yet. auth is USER:PASSWORD for its registry, or empty.
func (c *Client) Open(r Reference, auth string) (*Repository, error) {
	silence := c.cfg.Patience()
	client, err := c.cfg.Dialer.HTTPClient(dial.HTTPConfig{Timeout: fetch.LongestExchange, HeaderTimeout: silence, TLS: c.cfg.TLS})
	if err != nil {
		return nil, err
	}
	plain := c.cfg.Plain()
	blobs, tokens := *client, *client
	blobs.Transport = fetch.Guard{Next: client.Transport, Plain: plain, Silence: silence}
	tokens.Transport = fetch.Guard{Next: client.Transport, Plain: plain, Silence: silence, Most: longestToken}
	host, err := docker.DefaultHost(r.host)
	if err != nil {
		return nil, remote(err, r)
	}
	options := []docker.AuthorizerOpt{docker.WithAuthClient(&tokens)}
	if user, password, ok := strings.Cut(auth, ":"); ok {
		options = append(options, docker.WithAuthCreds(func(asks string) (string, string, error) {
			if asks != host {
				return "", "", nil
			}
			return user, password, nil
		}))
	}
	scheme := "https"
	if plain[host] {
		scheme = "http"
	}
	only := docker.RegistryHost{
		Client: &blobs, Authorizer: docker.NewDockerAuthorizer(options...), Host: host, Scheme: scheme, Path: "/v2",
		Capabilities: docker.HostCapabilityPull | docker.HostCapabilityResolve,
	}
	hosts := func(string) ([]docker.RegistryHost, error) { return []docker.RegistryHost{only}, nil }
	// The resolver logs by itself, also secrets.
	silent := logrus.New()
	silent.SetOutput(io.Discard)
	return &Repository{
		ref: r, client: client, quiet: logrus.NewEntry(silent),
		resolver: docker.NewResolver(docker.ResolverOptions{Hosts: hosts, Headers: http.Header{"User-Agent": {"croft"}}}),
	}, nil
}

// Resolve returns the descriptor of the manifest or the index that the reference leads to.
func (r *Repository) Resolve(ctx context.Context) (ocispec.Descriptor, error) {
	ctx, cancel := context.WithTimeout(log.WithLogger(ctx, r.quiet), longestResolve)
	defer cancel()
	_, desc, err := r.resolver.Resolve(ctx, r.ref.name)
	return desc, r.Wrap(err)
}

// Fetch opens a blob or a manifest. The reader is an io.Seeker.
func (r *Repository) Fetch(ctx context.Context, desc ocispec.Descriptor) (io.ReadCloser, error) {
	ctx = log.WithLogger(ctx, r.quiet)
	if r.fetcher == nil {
		f, err := r.resolver.Fetcher(ctx, r.ref.name)
		if err != nil {
			return nil, r.Wrap(err)
		}
		r.fetcher = f
	}
	// URLs would be asked past the dialer.
	desc.URLs = nil
	rc, err := r.fetcher.Fetch(ctx, desc)
	return rc, r.Wrap(err)
}

// Wrap gives the error of a reader its kind.
func (r *Repository) Wrap(err error) error { return remote(err, r.ref) }

// Close closes idle connections.
func (r *Repository) Close() error {
	r.client.CloseIdleConnections()
	return nil
}

// Skip passes over the first bytes of what Fetch returned. A registry that can is asked to begin there.
func Skip(body io.Reader, n int64) error {
	if s, ok := body.(io.Seeker); ok {
		_, err := s.Seek(n, io.SeekStart)
		return err
	}
	_, err := io.CopyN(io.Discard, body, n)
	return err
}
