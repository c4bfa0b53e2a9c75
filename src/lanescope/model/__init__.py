"""What follows from results: parameters, predictions, findings and advice."""
