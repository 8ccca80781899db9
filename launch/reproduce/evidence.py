"""What trials with several seeds show of the difference of two rows: its intervals and its p."""

import functools
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from launch.seeds import AdditiveFit, Deviation

CONFIDENCE = 0.95
OWN_CONFIDENCE = 0.90  # of the interval of the two rows alone, which bounds the pooled one
OWN_SEEDS = 5  # of both rows, which estimate their deviations without the other rows
FALSE_RATE = 0.05  # of the decided claims of a page


class Pooled(NamedTuple):
    """The estimate with the deviation of all rows.

    Attributes:
      mean: of the difference.
      variance: of a sample, estimated from all rows.
      freedom: its degrees of freedom.
      factor: the square of the error of the mean, as a share of the variance.
    """

    mean: Float[np.ndarray, "n"]
    variance: Float[np.ndarray, "n"]
    freedom: int
    factor: float


class Evidence(NamedTuple):
    """The difference of two rows A and B in n draws of the trials; in one, the real trials.

    Two sources of noise are independent: the seeds, and the examples, which all seeds share. The
    half width of an interval is the root of the sum of the squares of both intervals' half widths:
    exact if one of them is 0, otherwise not too narrow (Howe 1974). Over the seeds there are two
    intervals of Student's kind: with the deviation pooled over the rows of the table, since a few
    seeds estimate none, and that of A and B alone (Welch 1947), at 90 %. The interval reaches over
    both. Thus at most 5 % of claims without an effect are decided in each direction also where the
    deviations of rows differ, and 2.5 % where they do not. If both rows have five seeds or more,
    the interval is the 95 % interval from their values alone.

    Attributes:
      means: over the seeds of A and B alone.
      sizes: the number of seeds of A, and of B; of the seeds that they have in common, if they are
        paired; of no row, if the values of both do not depend on the seed.
      variances: of A's values, and of B's; of the differences of the common seeds.
      pooled: None with five seeds or more, and without other rows.
      example_error: standard error, over the examples, of the difference.

    References:
      Howe (1974), Approximate Confidence Limits on the Mean of X + Y Where X and Y Are Two Tabled
      Independent Random Variables. Welch (1947), The Generalization of 'Student's' Problem when
      Several Different Population Variances are Involved.
    """

    means: Float[np.ndarray, "n"]
    sizes: Int[np.ndarray, "samples"]
    variances: Float[np.ndarray, "samples n"]
    pooled: Pooled | None = None
    example_error: float = 0.0

    @property
    def has_interval(self) -> bool:
        """Whether no row has a single seed."""
        return bool((self.sizes > 1).all())

    @property
    def center(self) -> Float[np.ndarray, "n"]:
        """The estimate of the difference."""
        return self.pooled.mean if self.pooled and self.has_interval else self.means

    def interval(self) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
        """The ends of the 95 % interval; infinite if a row has a single seed."""
        if not self.has_interval:
            infinite = np.full(len(self.means), np.inf)
            return -infinite, infinite
        half, pooled = self._half_widths()
        low = self.means - half
        high = self.means + half
        if self.pooled is None:
            return low, high
        mean = self.pooled.mean
        return np.minimum(low, mean - pooled), np.maximum(high, mean + pooled)

    def p(self, within: float | None = None) -> Float[np.ndarray, "n"]:
        """The larger of the levels at which the two intervals reach 0; of a claim that A and B
        differ by less than `within`, at which they reach the bound from within, the larger of two
        one-sided tests, or from outside. 1 if the two estimates are on different sides."""
        from scipy.special import stdtr  # slow to import

        estimates = [(self.means, *self._own_error(self.variances))]
        if self.pooled is not None:
            error = np.sqrt(self.pooled.variance * self.pooled.factor)
            estimates.append((self.pooled.mean, error, np.full(len(error), self.pooled.freedom)))
        levels = []
        sides = []
        for mean, error, freedom in estimates:
            distance = np.abs(mean) if within is None else np.abs(np.abs(mean) - within)
            inside = within is not None and np.abs(mean) < within
            sides.append(np.where(inside, 0, np.sign(mean)))
            if self.example_error:
                levels.append(_level(distance, error, freedom, self.example_error))
            else:
                with np.errstate(divide="ignore", invalid="ignore"):
                    level = 2 * stdtr(freedom, -distance / error)
                levels.append(np.where(error > 0, level, np.where(distance > 0, 0.0, 1.0)))
        agree = sides[0] == sides[-1]
        return np.where(agree, np.maximum(levels[0], levels[-1]), 1.0)

    @property
    def true_error(self) -> float:
        """The standard error of the difference, for simulations."""
        seeds = self._true_variances @ (1 / self.sizes) if len(self.sizes) else 0.0
        return float(np.hypot(np.sqrt(seeds), self.example_error))

    @property
    def _true_variances(self) -> Float[np.ndarray, "samples"]:
        """The variances for simulations: those of the values, but not below the pooled one."""
        return np.maximum(self.variances[:, 0], self.pooled.variance[0] if self.pooled else 0.0)

    def simulated_half_widths(self, draws: int) -> Float[np.ndarray, "draws"]:
        """Half the widths of the intervals from the estimates of other trials of the same kind."""
        random = np.random.default_rng(0)
        freedom = self.sizes - 1
        squares = random.chisquare(freedom[:, None], (len(freedom), draws))
        squares *= self._true_variances[:, None]
        pooled = self.pooled
        if pooled is not None:
            remaining = pooled.freedom - int(freedom.sum())
            rest = random.chisquare(remaining, draws) if remaining > 0 else np.zeros(draws)
            variance = (squares.sum(0) + rest * pooled.variance) / pooled.freedom
            pooled = pooled._replace(variance=variance)
        variances = squares / freedom[:, None]
        again = self._replace(variances=variances, pooled=pooled)
        return np.maximum(*again._half_widths())

    def _own_error(
        self, variances: Float[np.ndarray, "samples n"]
    ) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
        """The standard error from A and B alone, and its degrees of freedom (Welch's)."""
        sizes = self.sizes[:, None]
        errors = variances / sizes  # squared, of the means
        total = errors.sum(0)
        with np.errstate(invalid="ignore", divide="ignore"):
            freedom = total**2 / (errors**2 / (sizes - 1)).sum(0)
        return np.sqrt(total), np.where(total > 0, freedom, 1.0)

    def _half_widths(self) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
        """Half the widths of the interval of A and B alone, and of the pooled one, else 0."""
        from scipy.special import stdtrit  # slow to import

        by_examples = normal_quantile() * self.example_error
        error, freedom = self._own_error(self.variances)
        confidence = OWN_CONFIDENCE if self.pooled else CONFIDENCE
        half = stdtrit(freedom, (1 + confidence) / 2) * error
        pooled = np.zeros_like(half)
        if self.pooled:
            quantile = stdtrit(self.pooled.freedom, (1 + CONFIDENCE) / 2)
            pooled = quantile * np.sqrt(self.pooled.variance * self.pooled.factor)
        return np.hypot(half, by_examples), np.hypot(pooled, by_examples)


class Trials:
    """The trials of a table by a metric.

    Args:
      values: of n draws, of each row and seed; NaN for trials that do not exist, the same in each
        draw.
      pool: the rows whose deviations are pooled, if they have two seeds or more; all by default.
    """

    def __init__(
        self, values: Float[np.ndarray, "n R S"], pool: Bool[np.ndarray, "R"] | None = None
    ):
        self._values = values
        self._present = ~np.isnan(values[0])
        self._pool = (self._present.sum(-1) > 1) & (True if pool is None else pool)

    @functools.cached_property
    def _fit(self) -> AdditiveFit:
        return AdditiveFit(self._present & self._pool[:, None])

    @functools.cached_property
    def _residual(self) -> Float[np.ndarray, "n"]:
        """The variance of the residuals of rows and seeds."""
        return self._fit.variance(self._values)

    @functools.cached_property
    def _within(self) -> tuple[Float[np.ndarray, "n"], int]:
        """The variance within rows, and its degrees of freedom."""
        rows = [self._values[:, row, self._present[row]] for row in np.flatnonzero(self._pool)]
        freedom = sum(row.shape[1] - 1 for row in rows)
        squares = sum((row.var(-1) * row.shape[1] for row in rows), np.zeros(len(self._values)))
        return squares / max(freedom, 1), freedom

    def deviation(self, paired: bool) -> Deviation | None:
        """The deviation over seeds that intervals use, of one draw: of the residuals, if rows are
        paired; else within rows. None if no row has two seeds."""
        if not self._pool.any() or (paired and not self._fit.freedom):
            return None
        variance, freedom = (self._residual, self._fit.freedom) if paired else self._within
        return Deviation(float(np.sqrt(variance[0])), freedom)

    def difference(
        self,
        first: int,
        second: int | None = None,
        *,
        paired: bool = False,
        constant: float = 0.0,
        example_error: float = 0.0,
    ) -> Evidence:
        """What the trials show of the difference of two rows.

        Unpaired, the deviation is that within the rows. Paired, the rows have the luck of their
        seeds in common: the difference is that of the seeds that both have, or, with fewer than
        five of these, that of an additive model of all rows and seeds. Rows with fewer than two
        seeds in common are compared unpaired.

        Args:
          second: None for the difference from a constant.
          constant: what is subtracted.
        """
        rows = [first] if second is None else [first, second]
        common = self._present[rows].all(0)
        if second is not None and paired and common.sum() > 1 and self._pool[rows].all():
            differences = self._values[:, first, common] - self._values[:, second, common]
            pooled = None
            if common.sum() < OWN_SEEDS and self._fit.freedom:
                mean, factor = self._fit.difference(self._values, first, second)
                # the variance of a difference is that of two residuals
                variance = 2 * self._residual
                pooled = Pooled(mean - constant, variance, self._fit.freedom, factor / 2)
            return _evidence([differences], constant, pooled, example_error)
        samples = [self._values[:, row, self._present[row]] for row in rows]
        evidence = _evidence(samples, constant, None, example_error)
        variance, freedom = self._within
        if not freedom or not 1 < evidence.sizes.min() < OWN_SEEDS:
            return evidence
        pooled = Pooled(evidence.means, variance, freedom, float((1 / evidence.sizes).sum()))
        return evidence._replace(pooled=pooled)


def _evidence(
    samples: list[Float[np.ndarray, "n s"]],
    constant: float,
    pooled: Pooled | None,
    example_error: float,
) -> Evidence:
    """The evidence of the values of A, and of B, which are subtracted, as a constant is."""
    means = samples[0].mean(-1) - sum(sample.mean(-1) for sample in samples[1:]) - constant
    sizes = np.array([sample.shape[1] for sample in samples])
    enough = bool((sizes > 1).all())
    variances = [sample.var(-1, ddof=1) if enough else 0 * means for sample in samples]
    return Evidence(means, sizes, np.array(variances), pooled, example_error)


def _level(
    distance: Float[np.ndarray, "n"],
    error: Float[np.ndarray, "n"],
    freedom: Float[np.ndarray, "n"],
    example_error: float,
) -> Float[np.ndarray, "n"]:
    """The level at which an interval with the noise of seeds and examples is as wide as a distance
    on each side, by bisection of its logarithm."""
    from scipy.special import ndtri, stdtrit  # slow to import

    low = np.full(len(distance), -60.0)
    high = np.zeros(len(distance))
    for _ in range(50):
        middle = (low + high) / 2
        tail = np.exp(middle) / 2
        half = np.hypot(stdtrit(freedom, tail) * error, ndtri(tail) * example_error)
        wider = half > distance
        low = np.where(wider, middle, low)
        high = np.where(wider, high, middle)
    return np.exp(high)


def normal_quantile() -> float:
    """The quantile of the 95 % interval with the noise of the examples."""
    from scipy.special import ndtri  # slow to import

    return float(ndtri((1 + CONFIDENCE) / 2))
