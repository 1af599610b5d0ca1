package carrier

import (
	"bytes"
	"encoding/json"

	"github.com/pkg/errors"
)

// strict decodes one JSON value without unknown fields and with nothing after it.
func strict(line []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if dec.More() {
		return errors.New("something follows the request")
	}
	return nil
}
