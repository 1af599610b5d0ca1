package explorer

import "github.com/croft-edge/croft/pkg/workload"

// EncodeReservation is the document's JSON, with Data byte for byte: the signed bytes are sent.
func EncodeReservation(r *workload.Reservation) ([]byte, error) { return workload.Encode(r) }

// EncodeShown is the JSON of a reservation as the explorer shows it: the document, then its result,
// null when there is none.
func EncodeShown(r *Reservation) ([]byte, error) {
	return workload.EncodeShown(&r.Reservation, r.Result)
}

// DecodeShown reads what EncodeShown writes, as strictly as workload.DecodeShown.
func DecodeShown(body []byte) (Reservation, error) {
	r, result, err := workload.DecodeShown(body)
	if err != nil {
		return Reservation{}, err
	}
	return Reservation{Reservation: *r, Result: result}, nil
}
