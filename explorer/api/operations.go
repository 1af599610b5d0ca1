package api

import (
	"context"
	_ "embed"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/pkg/errors"
	"go.yaml.in/yaml/v3"

	wire "github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
)

//go:embed openapi.yaml
var openapiYAML []byte

// openAPI is the description of this interface as JSON.
var openAPI = sync.OnceValues(func() ([]byte, error) {
	var doc map[string]any
	if err := yaml.Unmarshal(openapiYAML, &doc); err != nil {
		return nil, errors.Wrap(err, "cannot read openapi.yaml")
	}
	out, err := json.Marshal(doc)
	return out, errors.Wrap(err, "cannot read openapi.yaml")
})

// ready is how long the database may take to answer /readyz.
const ready = 2 * time.Second

// operations answers requests about the explorer itself.
type operations struct {
	// described is the answer to /info, without the time.
	described wire.Info
	now       func() time.Time
	openapi   []byte
	metrics   http.Handler
	ping      func(context.Context) error
	stopping  func() bool
}

func (o *operations) healthz(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

func (o *operations) readyz(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), ready)
	defer cancel()
	if o.stopping() {
		return node.Errorf(node.Transient, "cannot serve: the explorer is stopping")
	}
	if err := o.ping(ctx); err != nil {
		return node.WithKind(node.Transient, err)
	}
	return writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

func (o *operations) info(w http.ResponseWriter, _ *http.Request) error {
	out := o.described
	out.Time = o.now().UTC()
	return writeJSON(w, http.StatusOK, out)
}

func (o *operations) getOpenAPI(w http.ResponseWriter, _ *http.Request) error {
	return writeBody(w, http.StatusOK, "application/json", o.openapi)
}

func (o *operations) getMetrics(w http.ResponseWriter, r *http.Request) error {
	o.metrics.ServeHTTP(w, r)
	return nil
}
