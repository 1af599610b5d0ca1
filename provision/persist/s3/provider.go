package s3

import (
	"cmp"
	"crypto/tls"
	"net"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/clip"
	"github.com/croft-edge/croft/pkg/fetch"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/persist"
	"github.com/croft-edge/croft/provision/persist/place"
	"github.com/croft-edge/croft/provision/persist/secret"
)

// Kind begins the names of instances.
const Kind = "s3"

// Settings are an instance's. They make its name, and hold no secrets.
type Settings struct {
	// Endpoint is HOST or HOST:PORT.
	Endpoint string `json:"endpoint"`
	Bucket   string `json:"bucket"`
	// Region is the bucket's; empty is DefaultRegion.
	Region string `json:"region,omitempty"`
	// Prefix is where in the bucket, without slashes around it; empty is the bucket's top. Machines that share a bucket have a prefix each.
	Prefix string `json:"prefix,omitempty"`
	// PathStyle has the bucket in the path of URLs, not in the host's name. Most servers that aren't Amazon's need it.
	PathStyle bool `json:"path_style,omitempty"`
	// Plain asks without TLS.
	Plain bool `json:"plain,omitempty"`
}

// DefaultRegion is Settings.Region when it is empty; most servers that aren't Amazon's have no other.
const DefaultRegion = "us-east-1"

// Instance is one place in a bucket.
type Instance struct {
	Settings
	// Keys names the server's keys among the secrets: KEYS-access and KEYS-secret.
	Keys string
}

// The ends of the names of a server's keys among the secrets.
const (
	accessKey = "-access"
	secretKey = "-secret"
)

// Config says what the provider uses.
type Config struct {
	Instances []Instance
	// Existing brings up only what a machine has used before: no place becomes a machine's. NotExist for others.
	Existing bool
	// Secrets has the servers' keys. They are read whenever an instance is brought up: one whose keys are missing is down, and new keys are used
	// once the server refuses the old ones.
	Secrets secret.Provider
	// TLS is for servers with a private authority; nil is this machine's.
	TLS *tls.Config
	// Silence is how long a server may send nothing in answer, and Patience how long one call may take, with all its tries; 0 are the
	// defaults.
	Silence, Patience time.Duration
	// Now measures latencies; nil is the machine's clock.
	Now func() time.Time
}

// The defaults of Config, and how often a request is tried.
const (
	DefaultSilence  = time.Minute
	DefaultPatience = 3 * time.Minute
	tries           = 3
)

// Provider is a persist.Provider on S3 servers.
type Provider struct {
	persist.Provider
	transports []*http.Transport
}

// Close closes idle connections.
func (p *Provider) Close() {
	for _, t := range p.transports {
		t.CloseIdleConnections()
	}
}

// New makes a provider. It asks no server before Initialize.
func New(c Config) (*Provider, error) {
	p := &Provider{}
	if c.Secrets == nil {
		return nil, node.Errorf(node.Invalid, "cannot use S3 servers: Secrets is missing")
	}
	var places []place.Named
	for _, i := range c.Instances {
		i.Region = cmp.Or(i.Region, DefaultRegion)
		if err := i.Check(); err != nil {
			return nil, err
		}
		if err := secret.CheckName(i.Keys); err != nil {
			return nil, err
		}
		name, err := i.Settings.Instance()
		if err != nil {
			return nil, err
		}
		b, transport, err := c.bucket(i)
		if err != nil {
			return nil, err
		}
		places = append(places, place.Named{Name: name, Place: b})
		p.transports = append(p.transports, transport)
	}
	inner, err := place.New(places, c.Now)
	p.Provider = inner
	return p, err
}

// bucket makes the place of an instance.
func (c Config) bucket(i Instance) (*bucket, *http.Transport, error) {
	transport := &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSClientConfig:     c.TLS.Clone(),
		TLSHandshakeTimeout: 10 * time.Second,
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: 16,
		IdleConnTimeout:     time.Minute,
		Proxy:               nil, // the operator names the server, and nothing else does
	}
	lookup := minio.BucketLookupDNS
	if i.PathStyle {
		lookup = minio.BucketLookupPath
	}
	guard := fetch.Guard{Next: transport, Plain: map[string]bool{}, Silence: cmp.Or(c.Silence, DefaultSilence), Most: persist.MaxFramed + 1}
	if i.Plain {
		guard.Plain[i.Endpoint], guard.Plain[i.Bucket+"."+i.Endpoint] = true, true
	}
	keys := &keyring{secrets: c.Secrets, name: i.Keys}
	b := &bucket{settings: i.Settings, keys: keys, existing: c.Existing, patience: cmp.Or(c.Patience, DefaultPatience)}
	for core, most := range map[*minio.Core]int{&b.core: tries, &b.once: 1} {
		client, err := minio.New(i.Endpoint, &minio.Options{
			Creds:  credentials.New(keys),
			Secure: !i.Plain, Transport: listings{next: guard}, Region: i.Region, BucketLookup: lookup, MaxRetries: most,
		})
		if err != nil {
			return nil, nil, node.WithKind(node.Invalid, errors.Wrapf(err, "cannot use S3 server %s", clip.Line(i.Endpoint, 100)))
		}
		core.Client = client
	}
	return b, transport, nil
}

// Check names the setting that is wrong, its value and what is allowed. node.Invalid.
func (i Settings) Check() error {
	bad := func(field, value, allowed string) error {
		return node.Errorf(node.Invalid, "cannot use S3 server %q: %s is %q, must be %s", clip.Line(i.Endpoint, 100), field, clip.Line(value, 100), allowed)
	}
	host := i.Endpoint
	if h, port, err := net.SplitHostPort(host); err == nil {
		if !regexp.MustCompile(`^[0-9]{1,5}$`).MatchString(port) {
			return bad("endpoint", i.Endpoint, "HOST or HOST:PORT")
		}
		host = h
	}
	if !regexp.MustCompile(`^([a-zA-Z0-9.-]+|[0-9a-fA-F:]+)$`).MatchString(host) || len(host) > 253 {
		return bad("endpoint", i.Endpoint, "HOST or HOST:PORT, without https://")
	}
	if !regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`).MatchString(i.Bucket) {
		return bad("bucket", i.Bucket, "3 to 63 of a-z, 0-9, '-' and '.'")
	}
	if region := cmp.Or(i.Region, DefaultRegion); !regexp.MustCompile(`^[a-zA-Z0-9-]{1,64}$`).MatchString(region) {
		return bad("region", region, "1 to 64 letters, digits and '-'")
	}
	for part := range strings.SplitSeq(i.Prefix, "/") {
		if i.Prefix != "" && (!regexp.MustCompile(`^[a-zA-Z0-9_.-]+$`).MatchString(part) || part == "." || part == "..") || len(i.Prefix) > 500 {
			return bad("prefix", i.Prefix, "names of letters, digits, '-', '_' and '.' with '/' between them, at most 500 bytes")
		}
	}
	return nil
}

// Instance is the name of the instance with these settings.
func (i Settings) Instance() (string, error) {
	i.Region = cmp.Or(i.Region, DefaultRegion)
	return persist.InstanceName(Kind, i)
}
