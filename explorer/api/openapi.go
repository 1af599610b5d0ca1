package api

import (
	_ "embed"
	"encoding/json"
	"sync"

	"github.com/pkg/errors"
	"go.yaml.in/yaml/v3"
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
