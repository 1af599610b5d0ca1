package kubeconfig

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"io"
	"net/netip"
	"unicode/utf8"

	"github.com/pkg/errors"
	"go.yaml.in/yaml/v3"

	"github.com/croft-edge/croft/pkg/clip"
)

// MaxSize is how many bytes an answer may have.
const MaxSize = 1 << 20

// port is the API server's.
const port = 6443

// Admin are the credentials of a cluster's administrator.
type Admin struct {
	server string
	// ca are the cluster's certificates of authority, certificate and key the administrator's: PEM.
	ca, certificate, key []byte
}

// Server is the URL of the API server.
func (a Admin) Server() string { return a.server }

// Read reads the kubeconfig of the control plane at that address, as kubeadm and croft's own image write it: one
// cluster, one user with a client certificate, and one context of them. Whatever else a kubeconfig may have is refused.
func Read(text []byte, address netip.Addr) (Admin, error) {
	var d document
	err := decode(text, &d)
	if err == nil {
		err = d.check()
	}
	if err != nil {
		return Admin{}, errors.WithMessage(err, "cannot use the machine's answer as a kubeconfig")
	}
	a := Admin{server: "https://" + netip.AddrPortFrom(address, port).String()}
	if err = a.take(d); err != nil {
		return Admin{}, errors.WithMessage(err, "cannot use the machine's kubeconfig")
	}
	return a, nil
}

// document is a kubeconfig, as far as it is accepted.
type document struct {
	APIVersion     string         `yaml:"apiVersion" json:"apiVersion"`
	Kind           string         `yaml:"kind" json:"kind"`
	Clusters       []namedCluster `yaml:"clusters" json:"clusters"`
	Users          []namedUser    `yaml:"users" json:"users"`
	Contexts       []namedContext `yaml:"contexts" json:"contexts"`
	CurrentContext string         `yaml:"current-context" json:"current-context"`
	// Preferences are kubectl's of old, which are always empty.
	Preferences struct{} `yaml:"preferences" json:"-"`
}

type namedCluster struct {
	Name    string  `yaml:"name" json:"name"`
	Cluster cluster `yaml:"cluster" json:"cluster"`
}

type cluster struct {
	Server string `yaml:"server" json:"server"`
	CA     string `yaml:"certificate-authority-data" json:"certificate-authority-data"`
}

type namedUser struct {
	Name string `yaml:"name" json:"name"`
	User user   `yaml:"user" json:"user"`
}

type user struct {
	Certificate string `yaml:"client-certificate-data" json:"client-certificate-data"`
	Key         string `yaml:"client-key-data" json:"client-key-data"`
}

type namedContext struct {
	Name    string `yaml:"name" json:"name"`
	Context pair   `yaml:"context" json:"context"`
}

// pair is what a context is of.
type pair struct {
	Cluster string `yaml:"cluster" json:"cluster"`
	User    string `yaml:"user" json:"user"`
}

// decode reads one YAML document without aliases and unknown members.
func decode(text []byte, to *document) error {
	if len(text) > MaxSize {
		return errors.Errorf("it has more than %d bytes", MaxSize)
	}
	if !utf8.Valid(text) {
		return errors.New("it isn't UTF-8")
	}
	// The error of a library has text of the machine in it, and may have as many lines as that.
	short := func(err error) error { return errors.New(clip.Line(err.Error(), 200)) }
	var node yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&node); errors.Is(err, io.EOF) {
		return errors.New("it is empty")
	} else if err != nil {
		return short(err)
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return errors.New("there is more than one document")
	}
	if anchored(&node) {
		return errors.New("there is an anchor or an alias")
	}
	decoder = yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(to); err != nil {
		return short(err)
	}
	return nil
}

func anchored(n *yaml.Node) bool {
	if n.Anchor != "" || n.Kind == yaml.AliasNode {
		return true
	}
	for _, c := range n.Content {
		if anchored(c) {
			return true
		}
	}
	return false
}

func (d document) check() error {
	switch {
	case d.Kind != "Config" || d.APIVersion != "v1":
		return errors.Errorf("it is %q of %q, it must be \"Config\" of \"v1\"", clip.Line(d.Kind, 40), clip.Line(d.APIVersion, 40))
	case len(d.Clusters) != 1 || len(d.Users) != 1 || len(d.Contexts) != 1:
		return errors.Errorf("it has %d clusters, %d users and %d contexts, it must have one of each", len(d.Clusters), len(d.Users), len(d.Contexts))
	case d.Contexts[0].Context != pair{d.Clusters[0].Name, d.Users[0].Name} || d.CurrentContext != d.Contexts[0].Name:
		return errors.New("its context isn't the one of its cluster and its user")
	}
	return nil
}

// take takes the credentials out of a document.
func (a *Admin) take(d document) (err error) {
	if server := d.Clusters[0].Cluster.Server; server != a.server {
		return errors.Errorf("its server is %q, it must be %s", clip.Line(server, 80), a.server)
	}
	if a.ca, err = fromBase64("certificate-authority-data", d.Clusters[0].Cluster.CA); err != nil {
		return err
	}
	if err := checkCertificates(a.ca); err != nil {
		return errors.WithMessage(err, "certificate-authority-data")
	}
	if a.certificate, err = fromBase64("client-certificate-data", d.Users[0].User.Certificate); err != nil {
		return err
	}
	if a.key, err = fromBase64("client-key-data", d.Users[0].User.Key); err != nil {
		return err
	}
	if _, err = tls.X509KeyPair(a.certificate, a.key); err != nil {
		return errors.WithMessage(errors.New(clip.Line(err.Error(), 200)), "client-certificate-data and client-key-data")
	}
	return nil
}

func fromBase64(what, text string) ([]byte, error) {
	out, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(out) == 0 {
		return nil, errors.Errorf("%s isn't base64", what)
	}
	return out, nil
}

func checkCertificates(text []byte) error {
	for count := 0; ; count++ {
		block, rest := pem.Decode(text)
		if block == nil && count > 0 && len(bytes.TrimSpace(text)) == 0 {
			return nil
		}
		if block == nil || block.Type != "CERTIFICATE" {
			return errors.New("it isn't certificates in PEM")
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return errors.New(clip.Line(err.Error(), 200))
		}
		text = rest
	}
}
