package kubeconfig

import (
	"bytes"
	"encoding/base64"

	"github.com/croft-edge/croft/cmd/croft/internal/render"
)

// Config is a kubeconfig of one cluster, for JSON and YAML: its cluster, user and context have the same name.
type Config document

// Named makes the kubeconfig of a.
func (a Admin) Named(name string) Config {
	encode := base64.StdEncoding.EncodeToString
	return Config{
		APIVersion: "v1", Kind: "Config", CurrentContext: name,
		Clusters: []namedCluster{{name, cluster{a.server, encode(a.ca)}}},
		Users:    []namedUser{{name, user{encode(a.certificate), encode(a.key)}}},
		Contexts: []namedContext{{name, pair{name, name}}},
	}
}

// YAML is the text of the file.
func (c Config) YAML() ([]byte, error) {
	var out bytes.Buffer
	err := render.Write(&out, render.YAML, c, render.Rows{})
	return out.Bytes(), err
}
