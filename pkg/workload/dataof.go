package workload

import (
	"bytes"
	"encoding/json"

	"github.com/pkg/errors"
)

// Data is the data of one of the six types.
type Data interface {
	Container | Volume | Network | ZDB | Debug | Kubernetes
}

// DataOf decodes the reservation's data. What it decodes is the canonical form
// of what the type's schema accepts, so everybody reads the same in it. It
// doesn't make the checks that a schema can't say: Validate makes them all.
func DataOf[T Data](r *Reservation) (T, error) {
	var out T
	if t := typeOf(out); r.Type != t {
		return out, refuse("type", string(r.Type), "%s", t)
	}
	canonical, err := validData(r)
	if err != nil {
		return out, err
	}
	return out, decodeCanonical(canonical, &out)
}

func typeOf(data any) Type {
	switch data.(type) {
	case Container:
		return TypeContainer
	case Volume:
		return TypeVolume
	case Network:
		return TypeNetwork
	case ZDB:
		return TypeZDB
	case Debug:
		return TypeDebug
	}
	return TypeKubernetes
}

func decodeCanonical(canonical []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(canonical))
	d.DisallowUnknownFields()
	return errors.Wrap(d.Decode(to), "cannot read data")
}
