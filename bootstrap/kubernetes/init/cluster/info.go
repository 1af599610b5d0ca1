package cluster

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"strings"

	"github.com/croft-edge/croft/pkg/strictjson"
)

// Names of cluster-info's members; the control plane's bootstrap signer adds a signature for each token.
const (
	InfoKubeconfig      = "kubeconfig"
	InfoSignaturePrefix = "jws-kubeconfig-"
)

// mostInfo is the longest kubeconfig of cluster-info, in bytes.
const mostInfo = 64 << 10

// Kubeconfig is the part of a kubeconfig that croft's machines write and read: JSON, which is YAML.
type Kubeconfig struct {
	APIVersion     string         `json:"apiVersion"`
	Kind           string         `json:"kind"`
	Clusters       []NamedCluster `json:"clusters"`
	Users          []NamedUser    `json:"users"`
	Contexts       []NamedContext `json:"contexts"`
	CurrentContext string         `json:"current-context"`
}

// NamedCluster is an API server and its certificate authority, in PEM.
type NamedCluster struct {
	Name    string `json:"name"`
	Cluster struct {
		Server string `json:"server"`
		CA     []byte `json:"certificate-authority-data"`
	} `json:"cluster"`
}

// NamedUser is an identity: a token, or a certificate and a key in PEM.
type NamedUser struct {
	Name string   `json:"name"`
	User Identity `json:"user"`
}

// Identity is what a client shows to the API server.
type Identity struct {
	Token           string `json:"token,omitempty"`
	Certificate     []byte `json:"client-certificate-data,omitempty"`
	Key             []byte `json:"client-key-data,omitempty"`
	CertificateFile string `json:"client-certificate,omitempty"`
	KeyFile         string `json:"client-key,omitempty"`
}

// NamedContext joins a cluster and a user.
type NamedContext struct {
	Name    string `json:"name"`
	Context struct {
		Cluster string `json:"cluster"`
		User    string `json:"user"`
	} `json:"context"`
}

// contextName is the name of cluster, user and context in every kubeconfig.
const contextName = "croft"

// NewKubeconfig returns the kubeconfig of an identity; without one it has no user, as cluster-info has none.
func NewKubeconfig(server string, ca []byte, identity *Identity) Kubeconfig {
	k := Kubeconfig{
		APIVersion: "v1", Kind: "Config", Clusters: make([]NamedCluster, 1), Users: []NamedUser{}, Contexts: []NamedContext{},
	}
	k.Clusters[0].Name = contextName
	k.Clusters[0].Cluster.Server, k.Clusters[0].Cluster.CA = server, ca
	if identity == nil {
		return k
	}
	k.Users = []NamedUser{{Name: contextName, User: *identity}}
	k.Contexts = make([]NamedContext, 1)
	k.Contexts[0].Name = contextName
	k.Contexts[0].Context.Cluster, k.Contexts[0].Context.User = contextName, contextName
	k.CurrentContext = contextName
	return k
}

// Encode returns the kubeconfig's text.
func (k Kubeconfig) Encode() ([]byte, error) {
	out, err := json.MarshalIndent(k, "", "  ")
	return append(out, '\n'), err
}

// OpenInfo checks the members of a ConfigMap cluster-info against the token's signature, and returns the certificate
// authority in it, in PEM. Nothing else of the document is used: the address is the one that the worker was given.
func OpenInfo(data map[string]string, t Token) ([]byte, error) {
	text := data[InfoKubeconfig]
	if text == "" || len(text) > mostInfo {
		return nil, fmt.Errorf("cannot use cluster-info: %s has %d bytes, must have 1 to %d", InfoKubeconfig, len(text), mostInfo)
	}
	signature, ok := data[InfoSignaturePrefix+t.ID]
	if !ok {
		return nil, fmt.Errorf("cannot trust cluster-info: it isn't signed with this machine's cluster secret")
	}
	if err := verify(text, signature, t); err != nil {
		return nil, fmt.Errorf("cannot trust cluster-info: %w", err)
	}
	if err := (strictjson.Rules{Bytes: mostInfo, Folded: true}).Check([]byte(text)); err != nil {
		return nil, fmt.Errorf("cannot use cluster-info: %w", err)
	}
	var k Kubeconfig
	in := json.NewDecoder(strings.NewReader(text))
	in.DisallowUnknownFields()
	if err := in.Decode(&k); err != nil {
		return nil, fmt.Errorf("cannot use cluster-info: %w", err)
	}
	if len(k.Clusters) != 1 {
		return nil, fmt.Errorf("cannot use cluster-info: it has %d clusters, must have 1", len(k.Clusters))
	}
	ca := k.Clusters[0].Cluster.CA
	block, rest := pem.Decode(ca)
	if block == nil || block.Type != "CERTIFICATE" || len(bytes.TrimSpace(rest)) > 0 {
		return nil, fmt.Errorf("cannot use cluster-info: certificate-authority-data must be one certificate in PEM")
	}
	authority, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("cannot use cluster-info: %w", err)
	}
	if !authority.IsCA {
		return nil, fmt.Errorf("cannot use cluster-info: its certificate is no authority's")
	}
	return ca, nil
}

// header is the part of a JSON Web Signature that says how it is made.
type header struct {
	Algorithm string `json:"alg"`
	Key       string `json:"kid"`
}

// verify checks a detached JSON Web Signature (RFC 7515, appendix F) by HMAC with SHA-256, the token's secret being the
// key, as Kubernetes' bootstrap signer makes it.
func verify(text, signature string, t Token) error {
	first, rest, ok := strings.Cut(signature, ".")
	middle, last, more := strings.Cut(rest, ".")
	if !ok || !more || middle != "" {
		return fmt.Errorf("its signature isn't detached: it must be HEADER..SIGNATURE")
	}
	raw, err := base64.RawURLEncoding.DecodeString(first)
	if err != nil {
		return fmt.Errorf("cannot read its signature's header: %w", err)
	}
	var h header
	if err := json.Unmarshal(raw, &h); err != nil {
		return fmt.Errorf("cannot read its signature's header: %w", err)
	}
	if h.Algorithm != "HS256" || h.Key != t.ID {
		return fmt.Errorf("its signature is of %.20q with key %.20q, must be of HS256 with key %q", h.Algorithm, h.Key, t.ID)
	}
	have, err := base64.RawURLEncoding.DecodeString(last)
	if err != nil {
		return fmt.Errorf("cannot read its signature: %w", err)
	}
	if !hmac.Equal(have, mac(first, text, t)) {
		return fmt.Errorf("its signature isn't of this machine's cluster secret")
	}
	return nil
}

func mac(header, text string, t Token) []byte {
	h := hmac.New(sha256.New, []byte(t.Secret))
	fmt.Fprintf(h, "%s.%s", header, base64.RawURLEncoding.EncodeToString([]byte(text)))
	return h.Sum(nil)
}
